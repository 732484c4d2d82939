//! `e2e-denied COMMANDS ERRNO PROGRAM ARGUMENTS...` executes the program under a seccomp filter that answers these
//! commands of `bpf()` with the error.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "part of the tests: its end is their failure"
)]

use std::{env, os::unix::process::CommandExt as _, process::Command};

use e2e::seccomp::{Command as Bpf, deny};
use rustix::io::Errno;

fn main() {
    let mut arguments = env::args().skip(1);
    let commands = arguments.next().expect("commands, with commas between");
    let errno = arguments.next().expect("an error number");
    let commands: Vec<Bpf> = commands
        .split(',')
        .map(|name| Bpf::from_name(name).expect("a command's name"))
        .collect();
    deny(
        &commands,
        Errno::from_raw_os_error(errno.parse().expect("a number")),
    );
    let program = arguments.next().expect("a program");
    let error = Command::new(program).args(arguments).exec();
    panic!("cannot execute the program: {error}");
}
