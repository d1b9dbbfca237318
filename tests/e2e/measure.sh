#!/bin/sh
# bench and tune: the table, its JSON and its picture; settings that are kept, found again, and forgotten.
BUILD=${BUILD:-build} python3 tests/e2e/measure.py
