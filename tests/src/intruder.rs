//! Tampers with a running agent from outside: closes its links to tracepoints, or denies commands of `bpf()` to its
//! sampling thread. Like a debugger, it makes that thread execute system calls. Used by `tests/kernel/loss.rs`.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use libc::{SYS_dup2, SYS_seccomp, user_regs_struct};
use nix::{
    sys::{
        ptrace,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use rustix::io::Errno;

use crate::{kernel::LOOK_EVERY, pace::happens_within, process_resources::links_of, seccomp};

/// The thread that reads the counters and re-attaches programs.
const THREAD: &str = "sample";
/// The instruction `syscall`; a sleeping thread resumes after it.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Distance below the stack pointer that the thread does not use.
const BELOW_STACK: u64 = 4096;
const SET_FILTER: u64 = 1;
/// A descriptor that the agent does not use: its standard input, which is `/dev/null`.
const NOTHING: u64 = 0;

/// Closes the agent's links to these tracepoints: their programs stay loaded but are no longer called. Returns the
/// number of links.
///
/// The descriptors then point to nothing, as if the links had been destroyed, and the agent still closes them.
pub fn close_links(pid: u32, is_meant: impl Fn(&str) -> bool) -> usize {
    let mut links = links_of(pid);
    let all = links.len();
    links.retain(|(tracepoint, _)| is_meant(tracepoint));
    let stopped = Stopped::stop(pid);
    for (tracepoint, link) in &links {
        let number = u64::try_from(*link).expect("a descriptor");
        let result = stopped.call(SYS_dup2, [NOTHING, number, 0]);
        assert_eq!(result, i64::from(*link), "{tracepoint}");
    }
    drop(stopped);
    assert_eq!(links_of(pid).len(), all - links.len(), "a link is still open");
    links.len()
}

/// Denies these commands to the sampling thread permanently.
pub fn deny(pid: u32, commands: &[seccomp::Command], with: Errno) {
    let filter: Vec<u8> = seccomp::program(commands, with)
        .iter()
        .flat_map(|step| {
            let [code, k] = [step.code.to_ne_bytes().to_vec(), step.k.to_ne_bytes().to_vec()];
            [code, vec![step.jt, step.jf], k].concat()
        })
        .collect();
    let stopped = Stopped::stop(pid);
    let at = (stopped.found.rsp - BELOW_STACK) & !15;
    // `struct sock_fprog` of the kernel: the number of instructions and their address, here directly after it.
    let steps = u16::try_from(filter.len() / 8).expect("few steps");
    let header = [u64::from(steps).to_ne_bytes(), (at + 16).to_ne_bytes()].concat();
    stopped.write(at, &[header, filter].concat());
    assert_eq!(
        stopped.call(SYS_seccomp, [SET_FILTER, 0, at]),
        0,
        "the filter is taken"
    );
}

/// The sampling thread, stopped at a system call; it resumes unchanged on drop.
struct Stopped {
    thread: Pid,
    found: user_regs_struct,
    memory: File,
}

impl Stopped {
    /// Stops the thread in its sleep.
    fn stop(pid: u32) -> Self {
        let (number, folder) = sampling_thread(pid);
        let thread = Pid::from_raw(number);
        let memory = File::options()
            .read(true)
            .write(true)
            .open(folder.join("mem"))
            .expect("root may write its memory");
        let deadline = Instant::now() + happens_within();
        ptrace::seize(thread, ptrace::Options::empty()).expect("root may trace it");
        loop {
            ptrace::interrupt(thread).expect("interrupt it");
            wait(thread);
            let found = ptrace::getregs(thread).expect("its registers");
            let mut behind = [0; SYSCALL.len()];
            memory
                .read_exact_at(&mut behind, found.rip - 2)
                .expect("its code");
            if behind == SYSCALL {
                return Self {
                    thread,
                    found,
                    memory,
                };
            }
            assert!(Instant::now() < deadline, "it never sleeps");
            ptrace::cont(thread, None).expect("let it go on");
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Makes the thread execute a system call.
    fn call(&self, number: i64, arguments: [u64; 3]) -> i64 {
        let [rdi, rsi, rdx] = arguments;
        let call = user_regs_struct {
            rip: self.found.rip - 2,
            rax: u64::try_from(number).expect("a number"),
            // The interrupted call must not be restarted yet.
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            ..self.found
        };
        ptrace::setregs(self.thread, call).expect("set its registers");
        ptrace::step(self.thread, None).expect("one step");
        wait(self.thread);
        let after = ptrace::getregs(self.thread).expect("its registers");
        assert_eq!(after.rip, self.found.rip, "it made the call");
        after.rax.cast_signed()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("write its memory");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        ptrace::setregs(self.thread, self.found).expect("set its registers");
        ptrace::detach(self.thread, None).expect("let it go");
    }
}

/// Thread id and its folder in `/proc`.
fn sampling_thread(pid: u32) -> (i32, PathBuf) {
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    let mut folders = fs::read_dir(tasks)
        .expect("its threads")
        .map(|entry| entry.expect("a thread").path());
    let is_it =
        |folder: &PathBuf| fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == THREAD);
    let folder = folders.find(is_it).expect("a thread that samples");
    let number = folder.file_name().expect("a number").to_string_lossy().parse();
    (number.expect("a number"), folder)
}

/// Waits until a traced thread stops.
fn wait(thread: Pid) {
    waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it stops");
}
