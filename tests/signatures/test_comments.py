import pytest

from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.shebang import Language
from skillpouch.signatures.signature import first_paragraph

CONVERTS = "Convert PDF to image format Supports PNG, JPG, GIF output formats"
APACHE = """#!/bin/bash
# Copyright 2024 Example Authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS.
#
# Rotate the pages of a document.
"""


def describe(text: str, language: Language, filename: str = "") -> str:
    return first_paragraph(first_comment(text, language, filename))


@pytest.mark.parametrize(
    ("language", "text", "description"),
    [
        (
            "shell",
            (
                "#!/bin/bash\n# Convert PDF to image format\n"
                "# Supports PNG, JPG, GIF output formats\n"
                "\nconvert_pdf() {\n    # Implementation\n}\n"
            ),
            CONVERTS,
        ),
        (
            "shell",
            (
                "#!/bin/bash\n: '\nConvert PDF to image format\n"
                "Supports PNG, JPG, GIF output formats\n"
                "'\n\nconvert_pdf() {\n    # Implementation\n}\n"
            ),
            CONVERTS,
        ),
        ("shell", ": <<'END'\nConvert it.\nEND\necho\n", "Convert it."),
        (
            "javascript",
            "// Extract metadata from files\nfunction extract() {}\n",
            "Extract metadata from files",
        ),
        (
            "javascript",
            (
                "/**\n * Extract metadata from files\n * Supports PDF, DOCX, TXT formats\n */\n"
                "function extract() {}\n"
            ),
            "Extract metadata from files Supports PDF, DOCX, TXT formats",
        ),
        ("typescript", "/* Sort names. */\nsort();\n", "Sort names."),
        ("ruby", "=begin\nRotate pages\n=end\nputs 1\n", "Rotate pages"),
        ("ruby", "# Rotate pages\nputs 1\n", "Rotate pages"),
        (
            "perl",
            "#!/usr/bin/perl\nuse strict;\nuse warnings;\n# Count pages\nprint 1;\n",
            "Count pages",
        ),
        (
            "python",
            "# Extract text from PDF file\ndef extract():\n    pass\n",
            "Extract text from PDF file",
        ),
        ("python", '"""\nExtract text.\nIn any format.\n"""\n', "Extract text. In any format."),
        ("python", "'''Extract text'''\n", "Extract text"),
        ("python", "def extract():\n    pass\n", ""),
    ],
)
def test_the_first_comment_block_describes_a_script(
    language: Language, text: str, description: str
) -> None:
    assert describe(text, language) == description


@pytest.mark.parametrize(
    ("language", "before"),
    [
        ("shell", "#!/usr/bin/env bash\nset -euo pipefail\nshopt -s nullglob\n\n"),
        ("shell", "# shellcheck disable=SC2086\n# vim: set ts=2:\n"),
        ("shell", "# Copyright (c) 2024 Ada Lovelace\n# SPDX-License-Identifier: MIT\n\n"),
        ("shell", "# Author: Ada\n# Version: 1.2\n# Date: 2024-01-01\n#\n"),
        ("shell", "# THIS FILE IS GENERATED, DO NOT EDIT\n\n"),
        ("shell", "# Ada Lovelace <ada@example.org>, 1843\n"),
        ("javascript", "#!/usr/bin/env node\n'use strict';\n/* eslint-disable no-console */\n"),
        ("javascript", "// @ts-check\n/// <reference types='node' />\n\n"),
        ("javascript", "/*! @license MIT */\n/* Licensed under the MIT licence. */\n"),
        ("typescript", "// eslint-disable-next-line\n// prettier-ignore\n"),
        (
            "ruby",
            "# -*- coding: utf-8 -*-\n# frozen_string_literal: true\n\n# rubocop:disable all\n",
        ),
        ("python", "# coding: utf-8\n# /// script\n# dependencies = ['x']\n# ///\n"),
        ("perl", "#!/usr/bin/perl -w\nuse v5.36;\nuse utf8;\n"),
        ("shell", "\ufeff"),
        ("shell", "#!/bin/sh\r\n"),
    ],
)
def test_lines_for_machines_and_lawyers_are_left_out(language: Language, before: str) -> None:
    marker = "//" if language in {"javascript", "typescript"} else "#"

    assert describe(f"{before}{marker} Sort the names.\nsort\n", language) == "Sort the names."


@pytest.mark.parametrize(
    ("after", "description"),
    [
        (
            '# Default message\nM="${1:-x}"\n\n# Add all\ngit add .\n\n# Send it\ngit push\n',
            "",
        ),
        ("# Check the words\nif [ $# -lt 1 ]; then exit 1; fi\n\n# Go\ncd /\n\n# Look\nls\n", ""),
        ("# Save all work\n\ngit add .\n\n# Send it\ngit push\n", "Save all work"),
        ("# Save all work\ngit add .\ngit push\n", "Save all work"),
        (
            "# Save all work,\n# and send it\ngit add .\n\n# Send it\ngit push\n",
            "Save all work, and send it",
        ),
    ],
)
def test_a_comment_on_one_step_of_a_shell_script_is_no_description(
    after: str, description: str
) -> None:
    assert describe(f"#!/bin/bash\nset -e\n\n{after}", "shell") == description
    assert describe(f"#!/bin/bash\n\n# Exit on error\nset -e\n\n{after}", "shell") == description


@pytest.mark.parametrize(
    ("comment", "description"),
    [
        ("# Security Manifest:\n#   Endpoints: none", ""),
        ("# Counts words.\n# Known Limits:\n# - none", "Counts words."),
        ("# It does the following:\n# - counts", "It does the following: - counts"),
    ],
)
def test_the_title_of_a_list_is_no_description(comment: str, description: str) -> None:
    assert describe(f"#!/bin/bash\n{comment}\n\nwc -w\n", "shell") == description


def test_a_whole_licence_is_left_out() -> None:
    assert describe(APACHE, "shell") == "Rotate the pages of a document."


def test_a_script_about_licences_keeps_its_description() -> None:
    text = "# Check the license headers of all files\nls\n"

    assert describe(text, "shell") == "Check the license headers of all files"


@pytest.mark.parametrize(
    "comment",
    [
        "# convert.sh - Convert it",
        "# convert.sh: Convert it",
        "# convert — Convert it",
        "# convert.sh\n#\n# Convert it",
        "# convert.sh\n# Convert it",
        "# scripts/convert.sh\n# Convert it",
        "# Script: convert.sh\n# Description: Convert it",
        "# Name: convert\n# Purpose: Convert it",
        "# ==========\n# Convert it\n# ==========\n# More words",
        "################\n#  Convert it  #\n################",
        "# ---- Convert it ----",
        "# ╔══════════╗\n# ║ Convert it ║\n# ╚══════════╝",
        "# Convert it\n# Usage: convert.sh FILE",
        "# Usage: convert.sh FILE\n#\n# Convert it",
        "# Convert it\n#\n# Examples:\n#   convert.sh a.pdf",
    ],
)
def test_only_the_useful_part_of_a_comment_is_kept(comment: str) -> None:
    assert describe(f"#!/bin/bash\n{comment}\n\necho\n", "shell", "convert.sh") == "Convert it"


def test_usage_describes_a_script_when_there_is_nothing_else() -> None:
    text = "# convert.sh\n# Usage: convert.sh FILE [FORMAT]\necho\n"

    assert describe(text, "shell", "convert.sh") == "Usage: convert.sh FILE [FORMAT]"


def test_a_comment_below_the_first_command_is_a_detail() -> None:
    assert describe("echo hello\n# Colours for the output\n", "shell") == ""


def test_tags_are_not_part_of_a_description() -> None:
    text = "/**\n * @fileoverview Sort names.\n * @author Ada\n * @param {string} x - a\n */\n"

    assert describe(text, "javascript") == "Sort names."


def test_paragraphs_are_kept_apart() -> None:
    assert first_comment("# One\n# line.\n#\n# Two.\n", "shell") == "One\nline.\n\nTwo."


@pytest.mark.parametrize(
    ("pod", "description"),
    [
        (
            "=head1 NAME\n\ncount - Count the B<lines> of a file\n\n=cut\n",
            "Count the lines of a file",
        ),
        (
            "=head1 NAME\n\ncount\n\n=head1 DESCRIPTION\n\nCounts lines.\n\nSlowly.\n\n=cut\n",
            "Counts lines.",
        ),
        ("=head1 SYNOPSIS\n\n  count FILE\n\n=head1 AUTHOR\n\nAda\n", "count FILE"),
    ],
)
def test_pod_describes_a_perl_script(pod: str, description: str) -> None:
    assert (
        describe(f"#!/usr/bin/perl\n# boilerplate\nprint 1;\n__END__\n\n{pod}", "perl")
        == description
    )
