//! CPU loads: threads that burn a known share of one CPU, a process that never leaves its CPU, and many tasks that
//! never sleep.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use headroom_testbed::{
    programs::Programs,
    thread::{cpu_time, stay_on},
    workload::load::Load,
};
use rustix::thread::gettid;
use xtask::process::Process;

/// A thread on one CPU that alternates between burning CPU time and sleeping; ended on drop.
#[derive(Debug)]
pub struct Loop {
    /// Thread id in the kernel.
    pub tid: u32,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_ending: AtomicBool,
    /// CPU time of the thread so far, in nanoseconds.
    used_ns: AtomicU64,
}

impl Loop {
    /// Starts the loop as an ordinary task.
    pub fn start(cpu: u32, burn: Duration, rest: Duration) -> Self {
        let shared = Arc::<Shared>::default();
        let (tid_tx, tid_rx) = mpsc::channel();
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            stay_on(cpu).expect("a CPU of this process");
            tid_tx
                .send(gettid().as_raw_nonzero().get())
                .expect("the starter waits");
            own.run(burn, rest);
        });
        let tid = tid_rx.recv().expect("the thread runs");
        Self {
            tid: tid.unsigned_abs(),
            shared,
            thread: Some(thread),
        }
    }

    /// Starts the loop as a real-time task: ordinary tasks do not delay it, other real-time tasks do.
    pub fn start_real_time(cpu: u32, burn: Duration, rest: Duration) -> Self {
        let real_time = Self::start(cpu, burn, rest);
        let status = Command::new("chrt")
            .args(["--fifo", "--pid", "1", &real_time.tid.to_string()])
            .status();
        assert!(
            status.expect("run chrt (util-linux)").success(),
            "only root may have real-time tasks"
        );
        real_time
    }

    /// CPU time by the thread's own clock, in nanoseconds: at most what the kernel has accounted.
    pub fn used_ns(&self) -> u64 {
        self.shared.used_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

impl Shared {
    fn run(&self, burn: Duration, rest: Duration) {
        while !self.is_ending() {
            let until = cpu_time() + burn;
            let mut used = cpu_time();
            while used < until && !self.is_ending() {
                used = cpu_time();
                let used_ns = u64::try_from(used.as_nanos()).expect("centuries");
                self.used_ns.store(used_ns, Ordering::Relaxed);
            }
            thread::sleep(rest);
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

/// A real-time process on one CPU that never sleeps; ended on drop.
pub fn real_time_spinner(cpu: u32, folder: &Path) -> Process {
    let mut command = Command::new("chrt");
    command
        .args(["--fifo", "1", "taskset", "--cpu-list", &cpu.to_string()])
        .args(["sh", "-c", "while :; do :; done"]);
    Process::spawn("spinner", &command, &folder.join("spinner.log"), Duration::ZERO).expect("start a spinner")
}

/// A process with many threads that never sleep; ended on drop.
#[derive(Debug)]
pub struct SpinningThreads {
    child: Child,
    _input: Option<ChildStdin>,
}

impl SpinningThreads {
    /// Starts the process in these cgroups, each given by its `cgroup.procs` file.
    pub fn start(threads: usize, cgroups: &[PathBuf]) -> Self {
        let load = Load {
            milli: 1000,
            threads,
            rest_percent: 0,
            memory_mib: 0,
        };
        let programs = Programs::build().expect("build our programs");
        let mut child = Command::new(programs.load)
            .args(load.arguments())
            .stdin(Stdio::piped())
            .spawn()
            .expect("start a crowd");
        for procs in cgroups {
            fs::write(procs, child.id().to_string()).expect("move a process");
        }
        let mut input = child.stdin.take();
        let asked = input.as_mut().map(|input| input.write_all(b"go\n"));
        assert!(asked.is_some_and(|asked| asked.is_ok()), "it waits");
        Self { child, _input: input }
    }

    /// Process id of the threads.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for SpinningThreads {
    fn drop(&mut self) {
        self.child.kill().expect("end a crowd");
        self.child.wait().expect("its end");
    }
}

/// Processes that never sleep, in the cgroup of `procs` or in that of this process; ended on drop.
pub fn spinners(count: usize, procs: Option<&Path>, folder: &Path) -> Vec<Process> {
    let procs = procs.unwrap_or(Path::new("/dev/null")).display();
    let spinner = |number: usize| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo $$ > {procs}; while :; do :; done")]);
        let log = folder.join(format!("spinner-{number}.log"));
        Process::spawn("spinner", &command, &log, Duration::ZERO).expect("start a spinner")
    };
    (0..count).map(spinner).collect()
}
