#!/bin/sh
# inspect and forge check on every form and kind of checkpoint, whole and incomplete.
BUILD=${BUILD:-build} python3 tests/e2e/inspect.py
