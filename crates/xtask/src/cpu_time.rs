//! Waits for a process to end and reads its CPU time, including child processes that it waited for.

use std::{
    fs, io,
    process::{Child, ExitStatus},
    time::Duration,
};

use rustix::{
    param::clock_ticks_per_second,
    process::{Pid, WaitId, WaitIdOptions, waitid},
};

/// Fields of `/proc/PID/stat` after the name: user and system time of the process and of its ended children. They are fields
/// 14 to 17 in proc_pid_stat(5); the name is field 2.
const TIMES: std::ops::Range<usize> = 11..15;

/// Waits until a process has ended; returns its exit status and CPU time.
///
/// # Errors
/// If the kernel does not report them.
pub fn wait(child: &mut Child) -> io::Result<(ExitStatus, Duration)> {
    loop {
        match waitid(
            WaitId::Pid(Pid::from_child(child)),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    ended(child)
}

/// Exit status and CPU time of a process that has ended; `None` while it runs.
///
/// # Errors
/// If the kernel does not report them.
pub fn try_wait(child: &mut Child) -> io::Result<Option<(ExitStatus, Duration)>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(Pid::from_child(child)), options)? {
        Some(_) => ended(child).map(Some),
        None => Ok(None),
    }
}

/// Reads `/proc` first: the entry of an ended process exists until its parent waits for it.
fn ended(child: &mut Child) -> io::Result<(ExitStatus, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    Ok((child.wait()?, parse(&stat).unwrap_or_default()))
}

fn parse(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields.get(TIMES)?.iter().map(|field| field.parse::<u64>());
    let ticks = ticks.sum::<Result<u64, _>>().ok()?;
    let per_second = clock_ticks_per_second().max(1);
    Some(Duration::from_millis(ticks * 1000 / per_second))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn cpu_time_includes_waited_for_children() {
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh")
            .args(["-c", &format!("{spin}; sh -c '{spin}'; exit 3")])
            .spawn()
            .expect("sh");
        let (status, took) = wait(&mut child).expect("its end");
        assert_eq!(status.code(), Some(3));
        assert!(took >= Duration::from_millis(20), "{took:?}");
    }

    #[test]
    fn process_names_may_have_spaces_and_brackets() {
        let stat = "7 (a ) b) Z 1 7 7 0 -1 0 0 0 0 0 200 100 50 50 20 0 1 0 5";
        let seconds = 400 / clock_ticks_per_second();
        assert_eq!(parse(stat), Some(Duration::from_secs(seconds)));
        assert_eq!(parse("7 (sh"), None);
    }
}
