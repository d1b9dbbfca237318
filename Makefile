# Foresight: `make` builds the library and the command, `make help` lists the rest.
# Everything lands under $(BUILD); sources are found by wildcard, instruction sets by the end of a file's name.

VERSION := 0.1.0
SOVERSION := 0

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
ifeq ($(origin CC),default)
CC      := gcc
endif
CLANG   ?= clang-14
PKG_CONFIG ?= pkg-config

PKGS := libjpeg libpng libwebp libwebpdemux libcjson libpcre2-8 libutf8proc libsodium
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
# Bits must not depend on the compiler's mood: no contraction, no errno side effects, never fast-math.
NUMERIC := -ffp-contract=off -fno-math-errno
OPT     ?= -O2
SAN     ?=
ifneq ($(SAN),)
WARN += -Wno-error # instrumented code looks different to the compiler, and it warns of what cannot be
endif
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
CFLAGS_ALL = -std=c17 -D_GNU_SOURCE -DFORE_VERSION='"$(VERSION)"' $(WARN) $(NUMERIC) $(OPT) -g -fPIC -fvisibility=hidden -pthread \
             -Iinclude -Isrc $(PKG_CFLAGS) $(SAN) $(CFLAGS)
LDLIBS_ALL = $(PKG_LIBS) -lm -pthread
CURL_CFLAGS := $(shell $(PKG_CONFIG) --cflags libcurl 2>/dev/null)
CURL_LIBS   := $(shell $(PKG_CONFIG) --libs libcurl 2>/dev/null)
CLI_LIBS  := -ledit $(CURL_LIBS)
COMPILE = mkdir -p $(@D) && echo "CC $<" && $(CC) $(CFLAGS_ALL) $(ISA) -MMD -MP -c $< -o $@
LINK    = mkdir -p $(@D) && echo "LD $@" && $(CC) $(SAN) $(LDFLAGS) -o $@

ifneq ($(if $(PKG_LIBS),,x)$(if $(CURL_LIBS),,x),)
$(warning pkg-config does not find all of: $(PKGS) libcurl; ./check installs what is missing)
endif

ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ISA_SRC_x86_64  := %_avx2.c %_avx512.c %_avx512vnni.c %_amx.c
ISA_SRC_aarch64 := %_neon.c %_neondot.c
ISA_ALL := $(ISA_SRC_x86_64) $(ISA_SRC_aarch64)

# Video files are read where FFmpeg's headers are; `make FFMPEG=` builds without. Its libraries are loaded at run time.
FFMPEG ?= $(shell $(PKG_CONFIG) --exists libavformat libavcodec libavutil libswscale 2>/dev/null && echo yes)
NOT_BUILT := src/image/video_$(if $(FFMPEG),none,ffmpeg).c

LIB_ROOMS := base kernels text image checkpoint model multimodal decode forge
LIB_SRC := $(foreach r,$(LIB_ROOMS),$(wildcard src/$(r)/*.c))
LIB_SRC := $(filter-out $(ISA_ALL) $(NOT_BUILT),$(LIB_SRC)) $(filter $(ISA_SRC_$(ARCH)),$(LIB_SRC))
CLI_SRC := $(wildcard src/cli/*.c)
HUB_SRC := $(wildcard src/hub/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)
HUB_OBJ := $(HUB_SRC:%.c=$(BUILD)/%.o)
LIB_REAL := libforesight.so.$(VERSION)
LIB_SO   := libforesight.so.$(SOVERSION)

TEST_DIRS := unit kernels golden promise fault
TEST_SRC  := $(foreach d,$(TEST_DIRS),$(wildcard tests/$(d)/test_*.c))
TEST_BIN  := $(TEST_SRC:%.c=$(BUILD)/%)
TEST_HELP := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN  := $(FUZZ_SRC:%.c=$(BUILD)/%)
DATA_TAR  := $(wildcard tests/data/*.tar.xz)
DATA_MARK := $(DATA_TAR:tests/data/%.tar.xz=$(BUILD)/data/%.unpacked)
BENCH_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))

.PHONY: FORCE all help demo check check-build check-objects data sanitize lint fuzz fuzz-run bench install uninstall clean
.SECONDARY:
all: $(BUILD)/libforesight.a $(BUILD)/libforesight.so $(BUILD)/foresight

help:
	@echo 'make            library (static, shared) and command, in $(BUILD)/'
	@echo 'make demo       describes a sample picture with models/tiny'
	@echo 'make check      every test; ends with "N passed, N failed"'
	@echo 'make sanitize   the same under AddressSanitizer (with leaks) and UBSanitizer, in build-san/'
	@echo 'make lint       include graph, file sizes, forbidden calls and flags, symbols, cppcheck, clang build'
	@echo 'make fuzz       libFuzzer on every parser, FUZZ_SECONDS=10 each, in build-fuzz/'
	@echo 'make bench      `foresight bench` on a random checkpoint of the GEOMETRY=0.8b (or 4b) sizes'
	@echo 'make install    into PREFIX=/usr/local (under DESTDIR); make uninstall removes it'

# ---- library and command ------------------------------------------------------------------------------------------

# Clang's instrumentation of these files takes a quarter of an hour, and no fuzz target reaches them.
KERNEL = -g1 # unrolled so far that full debug information takes longer than the code
UNFUZZED = $(if $(findstring fuzzer,$(SAN)),-fno-sanitize=all)
$(BUILD)/%_avx2.o:       ISA = $(KERNEL) -mavx2 -mfma -mf16c $(UNFUZZED)
$(BUILD)/%_avx512.o:     ISA = $(KERNEL) -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl $(UNFUZZED)
$(BUILD)/%_avx512vnni.o: ISA = $(KERNEL) -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni $(UNFUZZED)
$(BUILD)/%_amx.o:        ISA = $(KERNEL) -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile -mamx-int8 $(UNFUZZED)
$(BUILD)/%_neondot.o:    ISA = $(KERNEL) -march=armv8.2-a+dotprod
$(BUILD)/%.o: %.c Makefile
	@$(COMPILE)

# With FFmpeg's headers come or gone the library has other parts; this file changes only then.
$(BUILD)/ffmpeg: FORCE
	@mkdir -p $(@D); echo '$(FFMPEG)' | cmp -s - $@ || echo '$(FFMPEG)' >$@
$(BUILD)/libforesight.a: $(LIB_OBJ) $(BUILD)/ffmpeg
	@rm -f $@; echo "AR $@"; $(AR) rcs $@ $(LIB_OBJ)
$(BUILD)/$(LIB_REAL): $(LIB_OBJ) $(BUILD)/ffmpeg
	@$(LINK) -shared -Wl,-soname,$(LIB_SO) $(if $(SAN),,-Wl,-z,defs) $(LIB_OBJ) $(LDLIBS_ALL)
$(BUILD)/libforesight.so: $(BUILD)/$(LIB_REAL)
	@ln -sf $(LIB_REAL) $(BUILD)/$(LIB_SO); ln -sf $(LIB_SO) $@
# The hub is the command's alone: the library does not need libcurl.
$(HUB_OBJ): CFLAGS_ALL += $(CURL_CFLAGS)
$(BUILD)/libhub.a: $(HUB_OBJ)
	@rm -f $@; echo "AR $@"; $(AR) rcs $@ $^
$(BUILD)/foresight: $(CLI_OBJ) $(BUILD)/libhub.a $(BUILD)/libforesight.a
	@$(LINK) $^ $(LDLIBS_ALL) $(CLI_LIBS)

DEMO_PICTURE := tests/samples/s00.png
demo: all
	@echo; echo 'The picture is $(DEMO_PICTURE). The model is models/tiny, which was trained on such pictures. The command:'
	@echo '    $(BUILD)/foresight run --model models/tiny --image $(DEMO_PICTURE) "Describe the picture."'
	@echo 'The answer:'
	@$(BUILD)/foresight run --model models/tiny --image $(DEMO_PICTURE) 'Describe the picture.'

# ---- tests --------------------------------------------------------------------------------------------------------

# Tests see the internal headers; FORE_DATA is where the packed test data is unpacked.
$(BUILD)/tests/%.o: CFLAGS_ALL += -Itests -DFORE_DATA='"$(BUILD)/data"'
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_HELP) $(BUILD)/libforesight.a
	@$(LINK) $^ $(LDLIBS_ALL) -lcmocka $(TEST_LDFLAGS)
# A sanitizer has its own allocator: there this test replaces only the calls that the project itself makes.
ifneq ($(SAN),)
$(BUILD)/tests/fault/test_nomem.o: CFLAGS_ALL += -DFORE_WRAP_ALLOCATIONS
$(BUILD)/tests/fault/test_nomem: TEST_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free
endif
# The command's parts that need no model.
CLI_PARTS := $(patsubst %,$(BUILD)/src/cli/%.o,args options fail files json text view)
BENCH_PARTS := $(patsubst %,$(BUILD)/src/cli/%.o,bench_limits bench_json bench_plot figures)
$(BUILD)/tests/unit/test_cli: $(CLI_PARTS)
$(BUILD)/tests/unit/test_bench: $(CLI_PARTS) $(BENCH_PARTS)
$(BUILD)/tests/unit/test_cli $(BUILD)/tests/unit/test_bench: TEST_LDFLAGS = $(BUILD)/libforesight.a
HUB_TESTS := $(BUILD)/tests/unit/test_hub $(BUILD)/tests/fault/test_hub_memory $(BUILD)/tests/fuzz/fuzz_hub $(BUILD)/libfuzzer/fuzz_hub
$(HUB_TESTS): $(BUILD)/libhub.a
$(HUB_TESTS): TEST_LDFLAGS = $(BUILD)/libforesight.a $(CURL_LIBS)
# A fuzz target with a main of its own: the corpus and a fixed number of mutations of it, the same in every run.
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/driver.o $(BUILD)/libforesight.a
	@$(LINK) $^ $(TEST_LDFLAGS) $(LDLIBS_ALL)
$(BUILD)/data/%.unpacked: tests/data/%.tar.xz
	@mkdir -p $(BUILD)/data/$* && echo "TAR $<"
	@tar -C $(BUILD)/data/$* --no-same-owner -xJf $< && chmod -R u+w $(BUILD)/data/$*
	@touch $@
data: $(DATA_MARK)

check-objects: $(TEST_BIN) $(FUZZ_BIN) $(BUILD)/docs/example.o $(BENCH_BIN)
check-build: all data check-objects
check: check-build
	@BUILD=$(BUILD) CC='$(CC)' SAN='$(SAN)' sh tests/run.sh $(TEST_BIN) $(FUZZ_BIN)

sanitize:
	@ASAN_OPTIONS=detect_leaks=1 TEST_SECONDS=3600 $(MAKE) --no-print-directory BUILD=build-san CC='$(CC)' \
	    OPT='-O2 -fno-omit-frame-pointer' SAN='-fsanitize=address,undefined -fno-sanitize-recover=all' check

lint:
	@CLANG='$(CLANG)' MAKE='$(MAKE)' sh tools/lint.sh

FUZZ_SECONDS ?= 10
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
fuzz:
	@$(MAKE) --no-print-directory BUILD=build-fuzz CC='$(CLANG)' OPT='-O1' SAN='-fsanitize=fuzzer-no-link $(FUZZ_SAN)' fuzz-run
fuzz-run: $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/libfuzzer/%) | data
	@for t in $^; do FUZZ_SECONDS=$(FUZZ_SECONDS) sh tests/fuzz/run.sh $$t $(BUILD) || exit 1; done
$(BUILD)/libfuzzer/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/libforesight.a
	@mkdir -p $(@D); echo "LD $@"; $(CC) -fsanitize=fuzzer $(FUZZ_SAN) -o $@ $^ $(TEST_LDFLAGS) $(LDLIBS_ALL)

# ---- benchmark ----------------------------------------------------------------------------------------------------

GEOMETRY ?= 0.8b
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libforesight.a
	@$(LINK) $^ $(LDLIBS_ALL)
$(BUILD)/bench/model-%/complete: $(BUILD)/bench/make_checkpoint
	$< $* $(@D) && touch $@
bench: $(BUILD)/foresight $(BUILD)/bench/model-$(GEOMETRY)/complete
	$(BUILD)/foresight bench $(BENCH_ARGS) $(BUILD)/bench/model-$(GEOMETRY)

# ---- installation -------------------------------------------------------------------------------------------------

MAN_PAGES := $(wildcard docs/*.1)
TINY      := $(wildcard models/tiny/*)
SHARE     := share/foresight/models/tiny
# Every file that `install` puts under the prefix, which is what `uninstall` removes.
INSTALLED := bin/foresight include/foresight.h lib/libforesight.a lib/$(LIB_REAL) lib/$(LIB_SO) lib/libforesight.so \
             lib/pkgconfig/foresight.pc $(MAN_PAGES:docs/%=share/man/man1/%) $(TINY:models/tiny/%=$(SHARE)/%)
install: all
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@PACKAGES@|$(PKGS)|' foresight.pc.in >$(BUILD)/foresight.pc
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/foresight
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include include/foresight.h
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(BUILD)/libforesight.a
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib $(BUILD)/$(LIB_REAL)
	ln -sf $(LIB_REAL) $(DESTDIR)$(PREFIX)/lib/$(LIB_SO)
	ln -sf $(LIB_SO) $(DESTDIR)$(PREFIX)/lib/libforesight.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/pkgconfig $(BUILD)/foresight.pc
	$(if $(MAN_PAGES),install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(MAN_PAGES))
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/$(SHARE) $(TINY)
uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)$(PREFIX)/%)
	-cd $(DESTDIR)$(PREFIX)/share && rmdir -p $(SHARE:share/%=%) 2>/dev/null

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(HUB_OBJ:.o=.d) $(TEST_BIN:%=%.d) $(TEST_HELP:.o=.d) $(FUZZ_BIN:%=%.d) $(BENCH_BIN:%=%.d) \
         $(BUILD)/tests/fuzz/driver.d
