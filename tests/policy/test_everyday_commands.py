"""What an agent says to bash on an ordinary day is neither refused nor asked about."""

import pytest

from skillpouch.policy import CommandTest, Condition, Policy, Request, Rule

# What an agent that writes code says to bash on an ordinary day. None of them runs `rm`.
_LINES = r"""
ls -la
ls -la src/ tests/
pwd
cd src && ls
cd /workspace && python -m pytest -q
cat README.md
cat package.json | head -50
head -n 40 src/main.py
tail -f logs/app.log | head -20
wc -l src/**/*.py
tree -L 2 -I node_modules
mkdir -p build/out && cd build
touch src/__init__.py
cp config.example.yml config.yml
cp -r src/ /tmp/backup
mv old.txt new.txt
chmod +x scripts/deploy.sh
ln -s ../shared lib/shared
du -sh * | sort -h
df -h .
find . -name '*.py' -not -path './venv/*'
find . -type f -name "*.ts" | xargs grep -l "useEffect"
find . -name '*.pyc' -delete
find src -type f -exec grep -l TODO {} +
find . -name '*.go' -exec gofmt -l {} \;
find "$PWD" -maxdepth 2 -type d
find . -newer setup.py -name "*.py" -print0 | xargs -0 wc -l
grep -rn "def main" src/
grep -rn 'rm -rf' scripts/
grep -E "^(import|from)" src/*.py | sort | uniq -c | sort -rn | head
grep -v '^#' .env | cut -d= -f1
grep -c "" file.txt
grep -rn "foo(" --include='*.js' . | grep -v node_modules
rg "class \w+Error" -t py
rg -n "TODO|FIXME" src
sed -n '1,80p' src/app.py
sed -i 's/foo/bar/g' src/*.py
sed -i.bak -e '/^$/d' -e 's/[[:space:]]*$//' notes.txt
awk '{print $1}' access.log | sort | uniq -c
awk -F: '{ print $1, $3 }' /etc/passwd
awk 'NR>1 {sum+=$2} END {print sum/NR}' data.csv
cut -d, -f1,3 data.csv | tail -n +2
tr -d '\r' < dos.txt > unix.txt
sort -t, -k2,2n data.csv | head -5
diff -u old.py new.py
diff <(sort a.txt) <(sort b.txt)
jq '.dependencies | keys[]' package.json
jq -r '.[] | select(.type == "a") | .name' data.json
cat data.json | jq '.items[0]'
echo "hello world"
echo "Done: $(date)"
echo $PATH
echo "$HOME/bin" >> paths.txt
printf '%s\n' one two three
printf "%d items\n" 5
git status
git status --short && git diff --stat
git log --oneline -10
git log --pretty=format:'%h %an %s' --since='2 weeks ago'
git diff HEAD~1 -- src/app.py
git diff --cached | head -100
git add -A && git commit -m "Fix the parser"
git add src/*.py
git commit -m 'Remove `foo` and use [bar] instead'
git commit -m "rm dead code"
git commit -am "Add tests for user's input"
git rm --cached secrets.env
git checkout -b feature/login
git checkout -- .
git stash && git pull --rebase && git stash pop
git push origin main
git push -u origin HEAD
git fetch --all --prune
git branch -a | grep -v main
git show HEAD:src/app.py | head -20
git blame -L 10,20 src/app.py
git rev-parse --abbrev-ref HEAD
git -C ../other status
git log -p -S'needle' -- src | head -40
git reset --hard HEAD~1
git clone --depth 1 https://example.com/repo.git
git config user.name "Ada"
git tag -a v1.0 -m "First release"
git ls-files | xargs wc -l | tail -1
git rebase -i HEAD~3
git cherry-pick abc123
git merge --no-ff feature
git remote -v
npm install
npm ci && npm test
npm run build -- --mode production
npm test -- --watch=false
npm install --save-dev typescript @types/node
npm ls --depth=0 2>/dev/null | head
npx tsc --noEmit
npx eslint src --ext .ts,.tsx --fix
npx prettier --check "src/**/*.ts"
npx jest --coverage path/to/test.js
yarn add lodash
pnpm install --frozen-lockfile
node -e "console.log(process.version)"
node index.js
node --version && npm --version
pip install -r requirements.txt
pip install -e '.[dev]'
pip list --outdated | head -20
pip freeze > requirements.txt
python -m venv .venv && source .venv/bin/activate && pip install -e .
python script.py --input data.csv --output out.json
python -c "import sys; print(sys.version)"
python -c 'import json; print(json.load(open("a.json"))["x"])'
python3 -m http.server 8000 &
python -m json.tool < data.json
python manage.py migrate
pytest
pytest -q tests/test_app.py::test_login
pytest -x --tb=short 2>&1 | tail -40
pytest -k "not slow" -n 4
PYTHONPATH=src pytest tests -q
python -m pytest tests/ -v 2>&1 | grep -E "PASS|FAIL" | head
coverage run -m pytest && coverage report -m
tox -e py311
ruff check . --fix && ruff format .
mypy src
black --check .
make
make -j4 test
make clean all
make -C docs html
cmake -S . -B build && cmake --build build -j
cargo build --release
cargo test -- --nocapture
cargo clippy --all-targets -- -D warnings
cargo rm serde
go build ./...
go test ./... -run TestFoo -v
go mod tidy
javac Main.java && java Main
mvn -q test
./gradlew build
gcc -O2 -o main main.c && ./main
docker build -t app:latest .
docker run --rm -it -v "$PWD":/app -w /app node:20 npm test
docker ps -a
docker rm old_container
docker compose up -d
docker compose logs --tail=100 web
docker exec -it db psql -U postgres -c 'select 1'
docker images | grep app
kubectl get pods -n default
kubectl logs deploy/web --tail=50
kubectl apply -f k8s/
terraform plan -out=plan.tfplan
curl -s https://api.example.com/items | jq .
curl -sS -X POST -H 'Content-Type: application/json' -d '{"a": 1}' http://localhost:8000/items
curl -o file.zip https://example.com/file.zip && unzip -q file.zip
wget -q https://example.com/data.csv
tar -xzf archive.tar.gz
tar -czf backup.tar.gz --exclude=node_modules .
tar -tf archive.tar | head
unzip -l archive.zip
zip -r out.zip src -x '*.pyc'
gzip -k data.csv
for f in *.py; do echo "$f"; done
for f in src/*.ts; do npx tsc --noEmit "$f"; done
for i in 1 2 3; do curl -s "http://localhost:8000/$i"; done
for i in $(seq 1 5); do echo "run $i"; python bench.py; done
for d in */; do (cd "$d" && git pull); done
while read -r line; do echo "$line"; done < list.txt
while IFS=, read -r a b; do echo "$a -> $b"; done < data.csv
if [ -f package.json ]; then npm install; else echo none; fi
if [[ -z "$CI" ]]; then echo local; fi
[ -d build ] || mkdir build
[ "$(id -u)" -eq 0 ] && echo root
test -f .env && cat .env | grep -v SECRET
command -v rg >/dev/null 2>&1 || echo missing
which python3
type node
export NODE_ENV=production && npm run build
export PATH="$HOME/.local/bin:$PATH"
VERSION=$(git describe --tags) && docker build -t "app:$VERSION" .
FILES=$(git diff --name-only | grep '\.py$'); ruff check $FILES
COUNT=$(ls | wc -l); echo "There are $COUNT files"
DATABASE_URL=sqlite:///dev.db python manage.py test
python hello.py
tee notes.txt <<< "remember this"
timeout 60 pytest -q
timeout 10 python server.py & sleep 2; curl -s localhost:8000/health; kill %1
time make test
nohup python server.py > server.log 2>&1 &
ps aux | grep python | grep -v grep
kill -9 12345
lsof -i :8000
env | sort | head
env FOO=bar node app.js
sudo apt-get update && sudo apt-get install -y jq
xargs -n1 basename < files.txt
ls *.txt | xargs -I{} cp {} backup/{}
ls | while read f; do mv "$f" "${f%.txt}.md"; done
sqlite3 app.db "select count(*) from users;"
psql -U postgres -d app -c '\dt'
sha256sum dist/*.whl
date +%Y-%m-%d
sleep 1 && echo ok
set -euo pipefail; npm ci; npm test
cd frontend && npm run lint 2>&1 | tee lint.log | tail -20
bash scripts/setup.sh
bash -c 'cd src && ls'
bash scripts/build.sh 2>&1 | tail -5
sh -c "echo hello"
./scripts/run.sh --fast
./scripts/build.sh > build.log 2>&1
source .venv/bin/activate && pytest
. ./env.sh && make
echo '{"a": [1, 2]}' | python3 -m json.tool
ls -1 | sed 's/^/- /'
grep -oP '(?<=version = ")[^"]+' pyproject.toml
cat a.txt b.txt > c.txt
stat -c '%s %n' *.py
basename "$(pwd)"
uv run pytest -q
uv pip install -r requirements.txt
poetry install --no-root
ffmpeg -i in.mp4 -vn out.mp3
ssh host uptime
rsync -av --delete src/ backup/
"""
_TEXTS = [
    "python - <<'EOF'\nimport pandas\nprint(pandas.read_csv(\"data.csv\").describe())\nEOF",
    "cat > hello.py <<'EOF'\nprint(\"hello\")\nEOF",
    'cat <<EOF > config.json\n{"name": "$USER", "debug": true}\nEOF',
    "git commit -m \"$(cat <<'EOF'\nFix the parser\n\nIt's read twice.\nEOF\n)\"",
    "cat > Dockerfile <<'EOF'\nFROM python\nRUN pip install flask && \\\n    apt-get clean\nEOF",
]
EVERYDAY = [*_LINES.strip().splitlines(), *_TEXTS]

# What people refuse most often.
_RULES = [
    Rule(
        verdict="deny", tools=["bash"], when=[Condition(argument="command", test=CommandTest(each))]
    )
    for each in ("rm *", "rm -rf *", "mkfs* *", "shutdown *", "git push --force *", "sudo rm *")
]


def _verdict(text: str) -> str:
    request = Request(
        tool="bash", skill="", confined=True, first_use=False, arguments={"command": text}
    )
    return Policy(rules=_RULES).decide(request).verdict


@pytest.mark.promise("pol-11")
def test_at_most_a_tenth_of_everyday_commands_is_in_doubt() -> None:
    assert len(set(EVERYDAY)) >= 200

    doubtful = [text for text in EVERYDAY if _verdict(text) != "allow"]

    assert len(doubtful) <= len(EVERYDAY) / 10, doubtful


@pytest.mark.parametrize(
    "text", ["rm -rf build", "make && rm -r -f out", "cd x; git push -f --force"]
)
def test_the_same_rules_refuse_what_they_name(text: str) -> None:
    assert _verdict(text) == "deny"
