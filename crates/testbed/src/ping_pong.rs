//! Two threads on one CPU that send a byte back and forth: the cheapest possible context switches. Kernel tests and the bench
//! of the agent's overhead use them.

use std::{
    io::{PipeReader, PipeWriter, Read as _, Write as _, pipe},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};

use crate::thread::{cpu_time, stay_on};

/// Passes between two calls of `goes_on`.
const BATCH: u64 = 64;

#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Context switches between the threads: two for each byte that returned.
    pub switches: u64,
    /// CPU time of both threads. Includes programs attached to tracepoints, because the kernel starts to count for the next
    /// task before it calls them. Excludes other tasks and stolen time.
    pub cpu: Duration,
    /// Wall-clock time of the round.
    pub elapsed: Duration,
}

impl Round {
    /// CPU time per context switch, in nanoseconds.
    pub fn switch_ns(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / count(self.switches)
    }

    /// Context switches per second of wall-clock time.
    pub fn per_second(&self) -> f64 {
        count(self.switches) / self.elapsed.as_secs_f64()
    }
}

/// Passes the byte on one CPU for about `length`.
///
/// # Errors
/// If the threads cannot be pinned to the CPU, or a pipe fails.
pub fn round(cpu: u32, length: Duration) -> Result<Round> {
    run_while(cpu, |_passes, elapsed| elapsed < length)
}

/// Passes the byte on one CPU while `goes_on` returns true. It is called on that CPU between batches, with the number of passes
/// and the elapsed time.
///
/// # Errors
/// If the threads cannot be pinned to the CPU, or a pipe fails.
pub fn run_while(cpu: u32, goes_on: impl FnMut(u64, Duration) -> bool + Send) -> Result<Round> {
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

/// Sends the byte and waits for its return. Dropping the pipe at the end stops the other thread.
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

/// Sends every byte back until the pipe is closed.
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
    fn each_returned_byte_counts_as_two_switches() {
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
