"""Images from folders and archives: what is in them, twice the same, several at once."""
import io
import json
import os
import shutil
import subprocess
import tarfile
import unittest

import lib


def tool(*args, **more):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = lib.Home()
        # a store of its own: the shared one is not ours to fill
        os.unlink(os.path.join(cls.home.path, "data/images"))
        cls.work = os.path.join(cls.home.path, "mine")

    @classmethod
    def tearDownClass(cls):
        cls.home.remove()

    def imported(self, source, name):
        digest = self.home.ok("image", "import", "--name", name, source, timeout=120).strip()
        found = json.loads(self.home.ok("image", "inspect", "--json", name))
        found = found[0] if isinstance(found, list) else found
        self.assertIn(found["digest"], digest)
        path = found["path"]
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o444)
        check = tool("e2fsck", "-fn", path)
        self.assertEqual(check.returncode, 0, check.stdout)
        return found

    def debugfs(self, image, command):
        return subprocess.run(["debugfs", "-R", command, image["path"]], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True).stdout

    def tar_bytes(self):
        data = io.BytesIO()
        archive = tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT)

        def add(name, kind=tarfile.REGTYPE, content=b"", **fields):
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.mtime = kind, len(content), 1700000000
            entry.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            for key, value in fields.items():
                setattr(entry, key, value)
            archive.addfile(entry, io.BytesIO(content))

        add("bin", tarfile.DIRTYPE)
        add("bin/ping", content=b"ping\n", mode=0o4755, uid=1000, gid=1000,
            pax_headers={"SCHILY.xattr.user.note": "hello"})
        add("bin/other-name", tarfile.LNKTYPE, linkname="bin/ping")
        add("old", content=b"x\n", uid=3000000, gid=3000001, mtime=-5)
        add("l59", tarfile.SYMTYPE, linkname="t" * 59)
        add("l60", tarfile.SYMTYPE, linkname="t" * 60)
        add("l61", tarfile.SYMTYPE, linkname="t" * 61)
        add("n" * 255, content=b"long name\n")
        add("dev", tarfile.DIRTYPE)
        add("dev/null", tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)
        add("fifo", tarfile.FIFOTYPE)
        add("deep/er/file", content=b"no parents in the archive\n")
        add("large", content=bytes(range(256)) * 20000)
        archive.close()
        return data.getvalue()

    def test_archive_in_each_packing(self):
        plain = self.tar_bytes()
        path = os.path.join(self.work, "a.tar")
        with open(path, "wb") as f:
            f.write(plain)
        digests = set()
        for suffix, pack in (("", None), (".gz", ["gzip", "-n"]), (".zst", ["zstd", "-q"]),
                             (".xz", ["xz"])):
            with self.subTest(suffix or "plain"):
                if pack:
                    with open(path + suffix, "wb") as f:
                        subprocess.run(pack + ["-c", path], stdout=f, check=True)
                image = self.imported("tar:" + path + suffix, "packed" + suffix.strip("."))
                digests.add(image["digest"])
        self.assertEqual(len(digests), 1, "the same tree gave different images")

    def test_what_an_archive_holds(self):
        path = os.path.join(self.work, "b.tar")
        with open(path, "wb") as f:
            f.write(self.tar_bytes())
        image = self.imported("tar:" + path, "whole")
        stat = self.debugfs(image, "stat /bin/ping").decode()
        self.assertRegex(stat, r"Mode: +04755")
        self.assertRegex(stat, r"User: +1000 +Group: +1000")
        self.assertIn("Links: 2", stat)
        inode = stat.split()[1]
        self.assertEqual(self.debugfs(image, "stat /bin/other-name").decode().split()[1], inode)
        self.assertIn(b"hello", self.debugfs(image, "ea_get /bin/ping user.note"))
        old = self.debugfs(image, "stat /old").decode()
        self.assertRegex(old, r"User: +3000000 +Group: +3000001")
        self.assertRegex(old, r"mtime: 0xfffffffb")
        for length in (59, 60, 61):
            self.assertIn(b"t" * length, self.debugfs(image, "stat /l%d" % length)
                          + self.debugfs(image, "cat /l%d" % length))
        self.assertEqual(self.debugfs(image, "cat /" + "n" * 255), b"long name\n")
        self.assertIn("character", self.debugfs(image, "stat /dev/null").decode().lower())
        self.assertRegex(self.debugfs(image, "stat /deep/er").decode(), r"Mode: +0755")
        self.assertEqual(self.debugfs(image, "cat /large"), bytes(range(256)) * 20000)

    def test_folder(self):
        root = os.path.join(self.work, "root")
        os.makedirs(os.path.join(root, "sub"))
        with open(os.path.join(root, "sub/f"), "w") as f:
            f.write("content")
        os.symlink("sub/f", os.path.join(root, "link"))
        os.link(os.path.join(root, "sub/f"), os.path.join(root, "hard"))
        image = self.imported("rootfs:" + root, "folder")
        self.assertEqual(self.debugfs(image, "cat /sub/f"), b"content")
        self.assertIn("Links: 2", self.debugfs(image, "stat /hard").decode())

    def test_names(self):
        root = os.path.join(self.work, "named")
        os.makedirs(root)
        first = self.imported("rootfs:" + root, "one")
        second = self.imported("rootfs:" + root, "two")
        self.assertEqual(first["digest"], second["digest"])
        self.assertIn("one", self.home.ok("image", "ls"))
        self.assertIsInstance(json.loads(self.home.ok("image", "ls", "--json")), list)
        self.home.ok("image", "rm", "one")
        self.home.ok("image", "inspect", "two")
        self.home.ok("image", "rm", "two")
        result = self.home.run("image", "inspect", "two")
        self.assertNotEqual(result.code, 0)
        self.assertFalse(os.path.exists(first["path"]))

    def test_same_source_at_once(self):
        root = os.path.join(self.work, "parallel")
        os.makedirs(root)
        with open(os.path.join(root, "f"), "wb") as f:
            f.write(os.urandom(3000000))
        running = [self.home.popen("image", "import", "--name", "par%d" % i, "rootfs:" + root,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE) for i in range(3)]
        outs = set()
        for p in running:
            out, err = p.communicate(timeout=120)
            self.assertEqual(p.returncode, 0, err)
            outs.add(out.split()[-1])
        self.assertEqual(len(outs), 1)

    def test_bad_sources(self):
        archive = os.path.join(self.work, "cut.tar")
        with open(archive, "wb") as f:
            f.write(self.tar_bytes()[:100000])
        before = lib.snapshot(self.home.path)
        for source, part in (("tar:/no/such.tar", "/no/such.tar"), ("rootfs:/no/such", "/no/such"),
                             ("tar:" + archive, "cut.tar"), ("nonsense:x", "nonsense"),
                             ("rootfs:" + archive, "cut.tar")):
            with self.subTest(source):
                result = self.home.run("image", "import", "--name", "bad", source, timeout=60)
                self.assertNotEqual(result.code, 0, str(result))
                self.assertIn(part, result.error)
        self.assertEqual(lib.leaks_within(self.home.path, before), [])

    def test_killed_import_leaves_nothing_behind_for_good(self):
        root = os.path.join(self.work, "killed")
        os.makedirs(root)
        with open(os.path.join(root, "f"), "wb") as f:
            f.write(os.urandom(40000000))
        images = os.path.join(self.home.path, "data/images")
        for delay in (0.05, 0.15, 0.3):
            p = self.home.popen("image", "import", "--name", "killed", "rootfs:" + root,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
            try:
                p.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            lib.wait_for("helpers to end", lambda: not self.home.pids(), 20)
        self.imported("rootfs:" + root, "killed")
        self.home.ok("image", "rm", "killed")
        left = [n for n in os.listdir(images) if "tmp" in n]
        self.assertEqual(left, [])

    def test_hostile_archive_stays_inside(self):
        data = io.BytesIO()
        archive = tarfile.open(fileobj=data, mode="w")
        outside = os.path.join(self.home.path, "mine/outside")
        os.mkdir(outside)
        for name, kind, link, content in (
                ("esc", tarfile.SYMTYPE, outside, b""), ("esc/t", tarfile.REGTYPE, "", b"x"),
                ("ok", tarfile.REGTYPE, "", b"y")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, link, len(content)
            archive.addfile(entry, io.BytesIO(content))
        archive.close()
        path = os.path.join(self.work, "hostile.tar")
        with open(path, "wb") as f:
            f.write(data.getvalue())
        self.home.run("image", "import", "--name", "hostile", "tar:" + path, timeout=60)
        self.assertEqual(os.listdir(outside), [])
        entry = tarfile.TarInfo("../up")
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            archive.addfile(entry)
        with open(path, "wb") as f:
            f.write(data.getvalue())
        result = self.home.run("image", "import", "--name", "up", "tar:" + path, timeout=60)
        if result.code == 0:
            self.assertFalse(os.path.exists(os.path.join(self.home.path, "up")))
        else:
            self.assertIn("..", result.error)


class ImageInUse(lib.MachineTest):
    machine = None

    def test_image_of_a_machine_is_kept(self):
        root = os.path.join(self.home.path, "mine/in-use")
        os.makedirs(root)
        os.unlink(os.path.join(self.home.path, "data/images"))
        try:
            self.home.ok("image", "import", "--name", "used", "rootfs:" + root, timeout=60)
            self.home.ok("create", "m", "--image", "used")
            result = self.home.run("image", "rm", "used")
            self.assertNotEqual(result.code, 0, "an image in use was removed")
            self.assertIn("m", result.error)
            self.home.ok("rm", "m")
            self.home.ok("image", "rm", "used")
        finally:
            shutil.rmtree(os.path.join(self.home.path, "data/images"))
            os.symlink(os.path.join(lib.CACHE, "data/images"),
                       os.path.join(self.home.path, "data/images"))
            shutil.rmtree(root)

    def test_missing_image(self):
        result = self.home.run("create", "n", "--image", "gbtset")
        self.assertNotEqual(result.code, 0)
        self.assertIn("gbtset", result.error)
        self.assertEqual(len(result.error.strip().splitlines()), 1, result.error)


if __name__ == "__main__":
    lib.main()
