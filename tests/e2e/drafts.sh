#!/bin/sh
# Drafting by the command: flags, marks, figures, broken heads, and what verify says.
BUILD=${BUILD:-build} python3 tests/e2e/drafts.py
