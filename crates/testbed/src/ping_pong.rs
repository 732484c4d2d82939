//! Two threads on one CPU that pass a byte to and fro: the cheapest context switches possible. Kernel tests and the
//! bench of the agent's overhead run them.

use std::{
    io::{PipeReader, PipeWriter, Read as _, Write as _, pipe},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};

use crate::thread::{cpu_time, stay_on};

/// Passes between two questions whether to go on.
const BATCH: u64 = 64;

/// What one round took.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Switches from one thread to the other: two for each byte that came back.
    pub switches: u64,
    /// CPU time of both threads. The kernel begins to count for the next task before it calls tracepoints, so what
    /// hangs on them is in it; what other tasks or the hypervisor took is not.
    pub cpu: Duration,
    /// Time on the wall.
    pub elapsed: Duration,
}

impl Round {
    /// CPU time for each switch, in nanoseconds.
    pub fn switch_ns(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / count(self.switches)
    }

    /// Switches in a second on the wall.
    pub fn per_second(&self) -> f64 {
        count(self.switches) / self.elapsed.as_secs_f64()
    }
}

/// Passes the byte on one CPU for about this long.
///
/// # Errors
/// If the threads cannot have the CPU or a pipe.
pub fn round(cpu: u32, length: Duration) -> Result<Round> {
    rally(cpu, |_passes, elapsed| elapsed < length)
}

/// Passes the byte on one CPU as long as `goes_on` says so. It is asked, on that CPU, between batches and told the
/// passes and the time so far.
///
/// # Errors
/// If the threads cannot have the CPU or a pipe.
pub fn rally(cpu: u32, goes_on: impl FnMut(u64, Duration) -> bool + Send) -> Result<Round> {
    let (their_end, to_them) = pipe().context("make a pipe")?;
    let (our_end, to_us) = pipe().context("make a pipe")?;
    thread::scope(|scope| {
        let server = scope.spawn(move || serve(cpu, goes_on, our_end, to_them));
        let answerer = scope.spawn(move || answer(cpu, their_end, to_us));
        let (passes, elapsed, served) = joined(server.join())?;
        let answered = joined(answerer.join())?;
        Ok(Round {
            switches: 2 * passes,
            cpu: served + answered,
            elapsed,
        })
    })
}

/// Sends the byte and awaits it; dropping the pipe ends the other side.
fn serve(
    cpu: u32,
    mut goes_on: impl FnMut(u64, Duration) -> bool,
    mut back: PipeReader,
    mut out: PipeWriter,
) -> Result<(u64, Duration, Duration)> {
    stay_on(cpu)?;
    let (start, start_cpu) = (Instant::now(), cpu_time());
    let mut passes = 0;
    let mut byte = [0];
    while goes_on(passes, start.elapsed()) {
        for _ in 0..BATCH {
            out.write_all(&byte)?;
            back.read_exact(&mut byte)?;
        }
        passes += BATCH;
    }
    let used = cpu_time().saturating_sub(start_cpu);
    Ok((passes, start.elapsed(), used))
}

/// Sends every byte back until there are no more.
fn answer(cpu: u32, mut from: PipeReader, mut back: PipeWriter) -> Result<Duration> {
    stay_on(cpu)?;
    let start = cpu_time();
    let mut byte = [0];
    while from.read(&mut byte)? == 1 {
        back.write_all(&byte)?;
    }
    Ok(cpu_time().saturating_sub(start))
}

fn joined<T>(ended: thread::Result<Result<T>>) -> Result<T> {
    ended.map_err(|_panic| anyhow!("a thread panicked"))?
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::last_cpu;

    #[test]
    fn a_round_counts_two_switches_for_each_byte_that_came_back() {
        let round = round(last_cpu().unwrap(), Duration::from_millis(20)).unwrap();
        assert!(round.switches > 0 && round.switches.is_multiple_of(2 * BATCH));
        assert!(round.elapsed >= Duration::from_millis(20) && !round.cpu.is_zero());
        let known = Round {
            switches: 1_000,
            cpu: Duration::from_millis(2),
            elapsed: Duration::from_millis(4),
        };
        assert!((known.switch_ns() - 2_000.0).abs() < 1e-6 && (known.per_second() - 250_000.0).abs() < 1e-6);
    }
}
