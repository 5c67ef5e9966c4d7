import threading

from skillpouch.runtime.idle_threads import IdleThreads


def test_a_thread_that_is_done_serves_again() -> None:
    threads = IdleThreads()
    served: list[int] = []

    for _ in range(3):
        done = threading.Event()

        def work(done: threading.Event = done) -> None:
            served.append(threading.get_ident())
            done.set()

        threads.run(work)
        assert done.wait(60)
        while not threads._idle:
            pass

    assert len(set(served)) == 1


def test_work_that_waits_for_other_work_gets_it() -> None:
    threads = IdleThreads()
    together = threading.Barrier(9)

    def wait() -> None:
        together.wait(60)

    for _ in range(8):
        threads.run(wait)

    together.wait(60)
