"""Many machines one after the other, and kill -9 at random moments: nothing may be left.
GB_SOAK_RUNS (200) and GB_SOAK_KILLS (50) say how many; GB_SOAK_SEED repeats a run."""
import os
import random
import signal
import subprocess
import threading
import time

import lib

RUNS = int(os.environ.get("GB_SOAK_RUNS", "200"))
KILLS = int(os.environ.get("GB_SOAK_KILLS", "50"))
SEED = int(os.environ.get("GB_SOAK_SEED", str(int(time.time()))))


class Soak(lib.MachineTest):
    machine = None

    def setUp(self):
        # what is made once (template, folders) is no leak
        self.home.ok("run", "--rm", "--", "true", timeout=lib.START_S)
        lib.leaks_within(self.home.path, self.before, 5)
        self.clean = lib.snapshot(self.home.path)

    def test_create_run_rm(self):
        failed = []

        def worker(number):
            for i in range(RUNS // 2):
                name = "s%d-%d" % (number, i)
                for args in (("create", name), ("start", name),
                             ("exec", name, "--", "sh", "-c", "echo " + name), ("rm", "-f", name)):
                    result = self.home.run(*args, timeout=lib.START_S)
                    if result.code != 0 or (args[0] == "exec" and result.text != name + "\n"):
                        failed.append(str(result))
                        return

        threads = [threading.Thread(target=worker, args=(n,)) for n in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])
        self.assertEqual(lib.leaks_within(self.home.path, self.clean, 10), [])

    def test_kill_at_random_moments(self):
        chance = random.Random(SEED)
        print("# GB_SOAK_SEED=%d" % SEED, flush=True)
        self.home.ok("create", "k")
        for number in range(KILLS):
            victim = chance.choice(("supervisor", "qemu", "client", "share"))
            self.one_kill(victim, chance.uniform(0, 1.2))
            # whatever was hit: it is not running in half, and the next start works, also while
            # the last one is dying
            if number % 5 == 4:
                self.assertEqual(self.home.ok("run", "--name", "k", "--", "echo", "up",
                                              timeout=lib.START_S), "up\n")
        self.home.ok("rm", "-f", "k")
        self.assertEqual(lib.leaks_within(self.home.path, self.clean, 10), [])

    def one_kill(self, victim, delay):
        client = self.home.popen("run", "--name", "k", "--", "sh", "-c",
                                 "dd if=/dev/zero of=/root/x bs=64k count=50 2>/dev/null; sleep 0.3",
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + delay
            hit = False
            while not hit and time.monotonic() < deadline + 20:
                if time.monotonic() >= deadline:
                    for pid, command in self.home.pids().items():
                        program = os.path.basename(command.split(" ")[0])
                        if victim in program or (victim == "client" and pid == client.pid):
                            try:
                                os.kill(pid, signal.SIGKILL)
                                hit = True
                            except ProcessLookupError:
                                pass
                    if client.poll() is not None:
                        break
                time.sleep(0.02)
            client.wait(timeout=lib.COMMAND_S)
        finally:
            client.kill()
            client.wait()


if __name__ == "__main__":
    lib.main()
