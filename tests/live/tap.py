"""Test Anything Protocol: one line a check, flushed, and the plan at the end."""
import sys
import traceback


class Tap:
    def __init__(self):
        self.n = 0
        self.failed = 0

    def ok(self, good, name, detail=""):
        self.n += 1
        print("%s %d - %s" % ("ok" if good else "not ok", self.n, name.replace("#", "")), flush=True)
        if not good:
            self.failed += 1
            for line in str(detail).splitlines()[:60]:
                print("#   " + line, flush=True)
        return good

    def equal(self, got, want, name):
        return self.ok(got == want, name, "got:  %r\nwant: %r" % (got, want))

    def skip(self, name, why):
        self.n += 1
        print("ok %d - %s # SKIP %s" % (self.n, name.replace("#", ""), why), flush=True)

    def part(self, python, check, *args):
        """One check of an interpreter: what ends it is a failure of its own, and the others are still tried."""
        try:
            check(python, *args)
        except Exception:
            self.ok(False, "%s: %s ends" % (python.name, check.__name__), traceback.format_exc())

    def done(self):
        print("1..%d" % self.n, flush=True)
        sys.exit(1 if self.failed else 0)
