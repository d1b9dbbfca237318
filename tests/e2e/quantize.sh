#!/bin/sh
# foresight quantize as a user meets it.
BUILD=${BUILD:-build} python3 tests/e2e/quantize.py
