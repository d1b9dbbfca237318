#!/bin/sh
# foresight forge convert as a user meets it.
BUILD=${BUILD:-build} python3 tests/e2e/convert.py
