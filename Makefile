# Foresight: `make` builds the library and the command, `make help` lists the rest.
# Everything lands under $(BUILD); sources are found by wildcard, instruction sets by the end of a file's name.

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
ifeq ($(origin CC),default)
CC      := gcc
endif
CLANG   ?= clang-14
PKG_CONFIG ?= pkg-config
VERSION := 0.1.0

PKGS := libjpeg libpng libwebp libwebpdemux libcjson libpcre2-8 libutf8proc libsodium
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
# Bits must not depend on the compiler's mood: no contraction, no errno side effects, never -ffast-math.
NUMERIC := -ffp-contract=off -fno-math-errno
OPT     ?= -O2
SAN     ?=
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
CFLAGS_ALL = -std=c17 -D_GNU_SOURCE -DFORE_VERSION='"$(VERSION)"' $(WARN) $(NUMERIC) $(OPT) -g -fPIC -fvisibility=hidden -pthread \
             -Iinclude -Isrc $(PKG_CFLAGS) $(SAN) $(CFLAGS)
LDLIBS_ALL = $(PKG_LIBS) -lm -pthread
CLI_LIBS  := -ledit

ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ISA_SRC_x86_64  := %_avx2.c %_avx512.c %_avx512vnni.c
ISA_SRC_aarch64 := %_neon.c
ISA_ALL := $(ISA_SRC_x86_64) $(ISA_SRC_aarch64)

LIB_ROOMS := base kernels text image checkpoint model multimodal decode
LIB_SRC := $(foreach r,$(LIB_ROOMS),$(wildcard src/$(r)/*.c))
LIB_SRC := $(filter-out $(ISA_ALL),$(LIB_SRC)) $(filter $(ISA_SRC_$(ARCH)),$(LIB_SRC))
CLI_SRC := $(wildcard src/cli/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)

TEST_DIRS := unit kernels golden promise fault
TEST_SRC  := $(foreach d,$(TEST_DIRS),$(wildcard tests/$(d)/test_*.c))
TEST_BIN  := $(TEST_SRC:%.c=$(BUILD)/%)
TEST_HELP := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
DATA_TAR  := $(wildcard tests/data/*.tar.xz)
DATA_MARK := $(DATA_TAR:tests/data/%.tar.xz=$(BUILD)/data/%.unpacked)

.PHONY: all help check check-build demo sanitize lint fuzz bench install clean data
all: $(BUILD)/libforesight.a $(BUILD)/libforesight.so $(BUILD)/foresight

help:
	@echo 'make            library (static, shared) and command, in $(BUILD)/'
	@echo 'make check      every test; ends with "N passed, N failed"'
	@echo 'make demo       describes a sample picture with models/tiny'
	@echo 'make sanitize   the tests under AddressSanitizer and UBSanitizer'
	@echo 'make lint       include graph, file sizes, cppcheck, clang build'
	@echo 'make fuzz       libFuzzer on every parser, FUZZ_SECONDS each (default 10)'
	@echo 'make bench      figures on a random checkpoint of the 0.8B geometry'
	@echo 'make install PREFIX=/usr/local'

$(BUILD)/%_avx2.o:       ISA = -mavx2 -mfma -mf16c
$(BUILD)/%_avx512.o:     ISA = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(BUILD)/%_avx512vnni.o: ISA = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC $<"; $(CC) $(CFLAGS_ALL) $(ISA) -MMD -MP -c $< -o $@

$(BUILD)/libforesight.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libforesight.so: $(LIB_OBJ)
	@echo "LD $@"; $(CC) $(SAN) -shared -Wl,-soname,libforesight.so.0 -o $@ $^ $(LDLIBS_ALL)
$(BUILD)/foresight: $(CLI_OBJ) $(BUILD)/libforesight.a
	@echo "LD $@"; $(CC) $(SAN) -o $@ $^ $(LDLIBS_ALL) $(CLI_LIBS)

# Tests see the internal headers; FORE_DATA is where the packed test data is unpacked.
$(BUILD)/tests/%.o: CFLAGS_ALL += -Itests -DFORE_DATA='"$(BUILD)/data"'
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_HELP) $(BUILD)/libforesight.a
	@echo "LD $@"; $(CC) $(SAN) -o $@ $^ $(LDLIBS_ALL) -lcmocka $(TEST_LDFLAGS)
$(BUILD)/data/%.unpacked: tests/data/%.tar.xz
	@mkdir -p $(BUILD)/data/$*
	tar -C $(BUILD)/data/$* -xJf $<
	@touch $@
data: $(DATA_MARK)

check-build: all data $(TEST_BIN)
check: check-build
	@BUILD=$(BUILD) sh tests/run.sh $(TEST_BIN)

clean:
	rm -rf $(BUILD)

.SECONDARY:
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_SRC:%.c=$(BUILD)/%.d) $(TEST_HELP:.o=.d)
