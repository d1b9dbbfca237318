#!/bin/sh
# What the README says of the kinds of checkpoints that open.
BUILD=${BUILD:-build} python3 tests/e2e/opens.py
