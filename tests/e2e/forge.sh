#!/bin/sh
# foresight forge as a user meets it.
BUILD=${BUILD:-build} python3 tests/e2e/forge.py
