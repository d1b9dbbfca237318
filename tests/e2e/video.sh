#!/bin/sh
# Videos on the command line: frames as pictures, files.
BUILD=${BUILD:-build} python3 tests/e2e/video.py
