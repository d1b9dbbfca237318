# Sourced by ./demo and ./check, in the project's folder: sees to it that what packages.txt lists is installed.
# Root (or sudo) is used only when something is missing, and what is installed is said first.

# The names in packages.txt, one a line; with "check", those too that only ./check needs.
packages() { # [check]
    unwanted='# check'
    if [ "${1:-}" = check ] && [ "$(uname -m)" = x86_64 ]; then unwanted='^$'; fi
    sed -e "/$unwanted/d" -e 's/#.*//' -e '/^[[:space:]]*$/d' packages.txt
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Without dpkg nothing can be installed from here: say what seems to be missing and go on; make has the last word.
look_around() {
    absent=''
    for tool in cc make pkg-config tar xz python3; do
        command -v "$tool" >/dev/null 2>&1 || absent="$absent $tool"
    done
    if command -v pkg-config >/dev/null 2>&1; then
        for library in libjpeg libpng libwebp libcjson libpcre2-8 libutf8proc libsodium libedit libcurl cmocka; do
            pkg-config --exists "$library" || absent="$absent $library"
        done
    fi
    if [ -n "$absent" ]; then
        echo "This is not Debian, so nothing is installed here. Missing, it seems:$absent"
        echo "packages.txt lists what Debian calls them. Going on all the same."
    fi
}

need_packages() { # [check]
    if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
        look_around
        return 0
    fi
    missing=''
    for package in $(packages "${1:-}"); do
        installed "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    as_root=''
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "Packages that the build needs are missing, and only root can install them:" >&2
            echo "    apt-get install --no-install-recommends$missing" >&2
            return 1
        fi
        as_root=sudo
    fi
    echo "The build needs Debian packages that are missing; installing them${as_root:+ with sudo}:$missing"
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o Dpkg::Use-Pty=0"
    $apt update || echo "apt-get update failed; trying with the package lists that are there" >&2
    # shellcheck disable=SC2086
    if ! $apt install -y --no-install-recommends $missing >/dev/null; then
        echo "apt-get could not install:$missing" >&2
        return 1
    fi
}

# make, with as many jobs as there are processors.
run_make() { exec make -j"$(nproc 2>/dev/null || echo 1)" "$@"; }
