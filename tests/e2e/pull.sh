#!/bin/sh
# `foresight pull` and `--model OWNER/NAME` against a local server that behaves like the hub.
BUILD=${BUILD:-build} python3 tests/e2e/pull.py
