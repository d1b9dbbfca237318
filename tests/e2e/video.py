"""Videos by the command: frames as pictures, files, how many frames are taken, what is refused."""
import os
import shutil
import struct
import subprocess
import tempfile
import zlib

from support import BUILD, case, finish, run, run_json

ASK = ("--draft-depth", "2", "-n", "12", "--ignore-eos", "--json")
CLIP = "tests/samples/clip.mp4"
QWEN2_5 = os.path.join(BUILD, "data", "qwen2_5_video", "clips")
FILES = run_json("inspect", "models/tiny", "--json")["video_files"]
folder = tempfile.mkdtemp()


def png(path, width, height, colour, box):
    """A square of a colour on black."""
    rows = b""
    for y in range(height):
        row = bytearray(3 * width)
        for x in range(width):
            if box <= x < box + 24 and box <= y < box + 24:
                row[3 * x:3 * x + 3] = bytes(colour)
        rows += b"\0" + bytes(row)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return path


FRAMES = [png(os.path.join(folder, f"f{i}.png"), 96, 64, (250, 30, 20 * i), 4 * i) for i in range(8)]


def frames_as_pictures():
    """--frames answers, and counts what was seen"""
    a = run_json("run", "--frames", *FRAMES, "--fps", "2", *ASK, "What moves?")
    # 8 frames of 96x64 fit 25,600 pixels as 64x32 each: 2 tokens for each of 4 pairs
    seen = (a["videos"], a["video_frames"], a["video_tokens"], a["images"], a["image_tokens"])
    return seen == (1, 8, 8, 0, 0) and len(a["ids"]) == 12, a


def same_answer():
    """the answer to a video is the same at other depths, chunks and threads"""
    ids = [run_json("run", "--frames", *FRAMES, "--fps", "2", "-n", "12", "--ignore-eos", "--json", *more, "What moves?")["ids"]
           for more in ((), ("--draft-depth", "0", "--chunk", "1"), ("--draft-depth", "5", "--chunk", "7", "--threads", "2"))]
    return ids[0] == ids[1] == ids[2], ids


def verified():
    """verify holds for a video"""
    code, out, err = run("verify", "--frames", *FRAMES[:4], "--fps", "1", "-n", "6")
    return code == 0 and b"The promise holds" in out and b"pictures and videos" in out, (out, err)


def sampled():
    """frames are sampled from many a second, unless all are wanted"""
    taken = [run_json("run", "--frames", *FRAMES, "--fps", fps, *more, *ASK, "x")["video_frames"]
             for fps, more in (("24", ()), ("24", ("--all-frames",)), ("4", ("--take-fps", "3")), ("2", ()))]
    return taken == [4, 8, 6, 8], taken


def nested():
    """--nested keeps the template's own start and end"""
    n = [run_json("run", "--frames", *FRAMES, "--fps", "2", *more, *ASK, "x")["prompt_tokens"] for more in ((), ("--nested",))]
    return n[1] == n[0] + 2, n


def several():
    """several videos and a picture, with a rate for each"""
    a = run_json("run", "--image", FRAMES[0], "--frames", *FRAMES[:2], "--fps", "1", "--frames", *FRAMES, "--fps", "2", *ASK, "x")
    return (a["images"], a["videos"], a["video_frames"]) == (1, 2, 10), a


def rendered():
    """render places a video"""
    message = b'[{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "x"}]}]'
    code, out, err = run("render", "--model", "models/tiny", "--messages", "-", stdin=message)
    return code == 0 and b"<|vision_start|><|video_pad|><|vision_end|>x" in out, (out, err)


def traced():
    """logits writes the positions of a video's rows"""
    out = os.path.join(folder, "out.safetensors")
    code, _, err = run("logits", "--frames", *FRAMES[:2], "--fps", "2", "--out", out, "x")
    return code == 0 and os.path.getsize(out) > 0, err


def refused():
    """what makes no sense is refused, with a way out"""
    other = png(os.path.join(folder, "other.png"), 64, 96, (9, 9, 9), 0)
    broken = os.path.join(folder, "broken.png")
    with open(broken, "wb") as f:
        f.write(open(FRAMES[0], "rb").read()[:60])
    for status, part, args in (
            (2, b"--fps X is missing", ("--frames", *FRAMES)),
            (2, b"--fps: expected a number above 0, found '0'", ("--frames", *FRAMES, "--fps", "0")),
            (2, b"--fps: expected a number above 0, found 'nan'", ("--frames", *FRAMES, "--fps", "nan")),
            (2, b"--fps is given 2 times, --frames 1 times", ("--frames", *FRAMES, "--fps", "1", "--fps", "2")),
            (2, b"--frames: a value is missing", ("--frames", "--fps", "2")),
            (2, b"--take-fps", ("--frames", *FRAMES, "--fps", "2", "--take-fps", "0")),
            (1, b"a video of 1 frame, it needs at least 2", ("--frames", FRAMES[0], "--fps", "2")),
            (1, b"other.png has 64x96 pixels, the first one 96x64", ("--frames", FRAMES[0], other, "--fps", "2")),
            (1, b"broken.png", ("--frames", FRAMES[0], broken, "--fps", "2")),
            (1, b"nowhere.png: cannot open", ("--frames", FRAMES[0], "nowhere.png", "--fps", "2"))):
        code, out, err = run("run", *args, "-n", "1", "--", "x")
        if code != status or part not in err or out:
            return False, (args[-4:], code, err)
    return True, ""


def file_read():
    """--video answers about a file, or says that this build reads none"""
    if not FILES:
        code, _, err = run("run", "--video", CLIP, "x")
        return code == 1 and b"--frames and --fps" in err, err
    a = run_json("run", "--video", CLIP, *ASK, "x")
    b = run_json("run", "--video", CLIP, "--take-fps", "5", *ASK, "x")
    return (a["videos"], a["video_frames"], b["video_frames"]) == (1, 8, 20), (a, b)


def file_refused():
    """a file that is cut, empty or no video is refused"""
    if not FILES:
        return True, ""
    cut, empty = os.path.join(folder, "cut.mkv"), os.path.join(folder, "empty.mp4")
    data = open("tests/samples/clip.mkv", "rb").read()
    open(cut, "wb").write(data[:len(data) * 2 // 3])
    open(empty, "wb").close()
    for path, part in ((cut, b"cut short"), (empty, b"the file is empty"), ("README.md", b"not a video"), (folder, b"not a file"),
                       ("nowhere.mp4", b"cannot open")):
        code, out, err = run("run", "--video", path, "x")
        if code != 1 or part not in err or out:
            return False, (path, code, err)
    return True, ""


def chatted():
    """a chat takes a video, and keeps it over turns"""
    first = ("/video " + CLIP + "\n").encode() if FILES else b""
    code, out, err = run("chat", "-n", "8", "--stats", *(() if FILES else ("--frames", *FRAMES, "--fps", "2")),
                         stdin=first + b"What moves?\nAnd now?\n")
    return code == 0 and err.count(b"video ") >= 2 and b"reused" in err, err


def in_one_block():
    """Qwen2.5-VL takes every frame of a video unless told how many, in one block of pads"""
    seen = []
    for more in ((), ("--take-fps", "4"), ("--take-fps", "4", "--all-frames")):
        a = run_json("run", "--model", QWEN2_5, "--frames", *FRAMES[:7], "--fps", "8", *more, "-n", "4", "--ignore-eos", "--json", "x")
        seen.append((a["videos"], a["video_frames"], a["video_tokens"]))
    if seen != [(1, 7, 24), (1, 4, 12), (1, 7, 24)]:  # 96x64 becomes 84x56: 6 tokens a pair
        return False, seen
    code, out, err = run("verify", "--model", QWEN2_5, "--frames", *FRAMES[:5], "--fps", "2", "-n", "6")
    if code or b"The promise holds" not in out:
        return False, (out, err)
    if FILES:
        both = [run_json("run", "--model", QWEN2_5, "--video", CLIP, *more, "-n", "4", "--ignore-eos", "--json", "x")["video_frames"]
                for more in ((), ("--take-fps", "1"))]
        if both != [40, 4]:
            return False, both
    code, out, err = run("inspect", QWEN2_5)
    return code == 0 and b"every frame, or with --take-fps 4 to 768; files" in out, out


def made_by_ffmpeg():
    """a file that the ffmpeg command makes of the frames gives as many"""
    if not FILES or not shutil.which("ffmpeg"):
        return True, ""
    path = os.path.join(folder, "made.mkv")
    subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-framerate", "2", "-i", os.path.join(folder, "f%d.png"), "-c:v", "ffv1", path],
                   check=True)
    a = run_json("run", "--video", path, *ASK, "What moves?")
    return a["video_frames"] == 8, a


for each in (frames_as_pictures, same_answer, verified, sampled, nested, several, rendered, traced, refused, file_read, file_refused,
             chatted, in_one_block, made_by_ffmpeg):
    case(each)
shutil.rmtree(folder)
finish()
