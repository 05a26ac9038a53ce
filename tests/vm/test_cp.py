"""Copies between host and machine: files and trees, both ways, with their modes."""
import hashlib
import os
import shutil

import lib


class Copy(lib.MachineTest):
    def setUp(self):
        self.dir = os.path.join(self.home.path, "mine/cp")
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.guest_ok("rm -rf /tmp/cp; mkdir /tmp/cp")

    def at(self, name, content=None, mode=0o644):
        path = os.path.join(self.dir, name)
        if content is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(content)
            os.chmod(path, mode)
        return path

    def tree(self):
        self.at("t/empty", b"", 0o600)
        self.at("t/sub/run", b"#!/bin/sh\n", 0o755)
        self.at("t/sub/sp ace\n\xc3\xa9", b"odd name")
        os.symlink("sub/run", self.at("t/link"))
        os.symlink("/nowhere", self.at("t/dangling"))
        os.mkdir(self.at("t/hollow"))
        os.utime(self.at("t/sub/run"), (1, 1000000000))
        os.chmod(self.at("t/hollow"), 0o711)

    def listing(self, root):
        found = {}
        for folder, folders, names in os.walk(root):
            for name in folders + names:
                path = os.path.join(folder, name)
                st = os.lstat(path)
                content = os.readlink(path) if os.path.islink(path) else \
                    open(path, "rb").read() if os.path.isfile(path) else None
                mode = None if os.path.islink(path) else st.st_mode & 0o7777
                found[os.path.relpath(path, root)] = (mode, content)
        return found

    def test_file_there_and_back(self):
        data = os.urandom(5000000)
        self.at("f", data, 0o751)
        self.home.ok("cp", self.at("f"), "m:/tmp/cp/g")
        out = self.guest_ok("sha256sum < /tmp/cp/g; stat -c '%a %u' /tmp/cp/g")
        self.assertEqual(out.split(), [hashlib.sha256(data).hexdigest(), "-", "751", "0"])
        self.home.ok("cp", "m:/tmp/cp/g", self.at("back"))
        with open(self.at("back"), "rb") as f:
            self.assertEqual(f.read(), data)
        self.assertEqual(os.stat(self.at("back")).st_mode & 0o777, 0o751)

    def test_tree_there_and_back(self):
        self.tree()
        self.home.ok("cp", self.at("t"), "m:/tmp/cp/new")
        out = self.guest_ok("cd /tmp/cp/new; readlink link dangling; stat -c '%a' empty sub/run hollow;"
                            "stat -c %Y sub/run")
        self.assertEqual(out.split(), ["sub/run", "/nowhere", "600", "755", "711", "1000000000"])
        self.home.ok("cp", "m:/tmp/cp/new", self.at("back"))
        self.assertEqual(self.listing(self.at("back")), self.listing(self.at("t")))
        self.assertEqual(int(os.stat(self.at("back/sub/run")).st_mtime), 1000000000)

    def test_into_a_folder(self):
        self.at("f", b"one")
        self.home.ok("cp", self.at("f"), "m:/tmp/cp")
        self.home.ok("cp", self.at("f"), "m:/tmp/cp/")
        self.assertEqual(self.guest_ok("cat /tmp/cp/f"), "one")
        result = self.home.run("cp", self.at("f"), "m:/tmp/cp/missing/")
        self.assertNotEqual(result.code, 0, "a slash at the end means a folder that is there")
        os.mkdir(self.at("into"))
        self.home.ok("cp", "m:/tmp/cp/f", self.at("into"))
        self.assertEqual(os.listdir(self.at("into")), ["f"])
        self.tree()
        self.home.ok("cp", self.at("t"), "m:/tmp/cp")
        self.assertEqual(self.guest_ok("cat /tmp/cp/t/sub/run"), "#!/bin/sh\n")

    def test_what_cannot_be_copied(self):
        self.at("f", b"x")
        for args, part in (((self.at("missing"), "m:/tmp/cp/x"), "missing"),
                           (("m:/no/such", self.at("x")), "/no/such"),
                           ((self.at("f"), "m:/no/such/folder/x"), "/no/such/folder"),
                           ((self.at("f"), "nobody:/x"), "nobody"),
                           ((self.at("f"), self.at("g")), ""),
                           (("m:/etc/hostname", self.at("no/such/x")), "no/such")):
            with self.subTest(args):
                result = self.home.run("cp", *args)
                self.assertNotEqual(result.code, 0, str(result))
                self.assertIn(part, result.error)
        self.assertEqual(sorted(os.listdir(self.dir)), ["f"])

    def test_overwrites_a_file_and_not_through_a_link(self):
        self.at("f", b"new")
        self.guest_ok("echo precious > /tmp/cp/target; ln -s target /tmp/cp/link; echo old > /tmp/cp/f")
        self.home.ok("cp", self.at("f"), "m:/tmp/cp/f")
        self.assertEqual(self.guest_ok("cat /tmp/cp/f"), "new")
        os.symlink("/etc/hostname", self.at("link"))
        self.home.ok("cp", "m:/tmp/cp/link", self.at("got"))
        self.assertEqual(os.readlink(self.at("got")), "target")

    def test_tree_of_a_hostile_guest_stays_inside(self):
        # a folder of the copy is a link on the host already
        outside = os.path.join(self.home.path, "mine/outside")
        os.makedirs(outside, exist_ok=True)
        self.guest_ok("mkdir -p /tmp/cp/t/sub; echo x > /tmp/cp/t/sub/f")
        os.makedirs(self.at("dest/t"))
        os.symlink(outside, self.at("dest/t/sub"))
        self.home.run("cp", "m:/tmp/cp/t", self.at("dest"))
        self.assertEqual(os.listdir(outside), [])

    def test_owner(self):
        self.at("f", b"x")
        self.home.ok("cp", "-u", "1234:5678", self.at("f"), "m:/tmp/cp/o")
        self.assertEqual(self.guest_ok("stat -c '%u %g' /tmp/cp/o"), "1234 5678\n")


if __name__ == "__main__":
    lib.main()
