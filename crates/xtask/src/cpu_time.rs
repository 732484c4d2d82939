//! Waits for a process to end and reads its CPU time, with that of the child processes it waited for.

use std::{
    fs, io,
    process::{Child, ExitStatus},
    time::Duration,
};

use rustix::{
    param::clock_ticks_per_second,
    process::{Pid, WaitId, WaitIdOptions, waitid},
};

/// Fields of `/proc/PID/stat` behind the name: user and system time of the process, and of its children that ended.
/// proc_pid_stat(5) counts them from 1 as 14 to 17; the name is the second.
const TIMES: std::ops::Range<usize> = 11..15;

/// Waits until a process has ended: how, and the CPU time that it took.
///
/// # Errors
/// If the kernel cannot say.
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

/// How a process has ended and the CPU time that it took; `None` if it runs.
///
/// # Errors
/// If the kernel cannot say.
pub fn try_wait(child: &mut Child) -> io::Result<Option<(ExitStatus, Duration)>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(Pid::from_child(child)), options)? {
        Some(_) => ended(child).map(Some),
        None => Ok(None),
    }
}

/// What `/proc` tells of a process that has ended and was not waited for.
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
    fn a_process_and_what_it_waited_for_are_counted() {
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
    fn names_with_spaces_and_brackets_are_no_fields() {
        let stat = "7 (a ) b) Z 1 7 7 0 -1 0 0 0 0 0 200 100 50 50 20 0 1 0 5";
        let seconds = 400 / clock_ticks_per_second();
        assert_eq!(parse(stat), Some(Duration::from_secs(seconds)));
        assert_eq!(parse("7 (sh"), None);
    }
}
