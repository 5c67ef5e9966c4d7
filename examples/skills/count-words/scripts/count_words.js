export default async function handler(args) {
  const { text } = args;
  const words = text.trim().split(/\s+/).filter(Boolean);
  return { count: words.length };
}
