//! [`LineQueue`]: log lines on their way to a slow file, written by a thread of their own. No caller waits for the file:
//! lines that do not fit are dropped and counted.

use std::{
    collections::VecDeque,
    io::{self, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tracing::warn;
use tracing_subscriber::fmt::MakeWriter;

use crate::metric::process::LOG_DROPPED;

/// Maximum total length of waiting lines, in bytes: some thousand lines.
const LONGEST: usize = 1 << 20;

/// Lines that wait to be written. Clones share them.
#[derive(Clone, Default)]
pub(super) struct LineQueue(Arc<QueueState>);

#[derive(Default)]
struct QueueState {
    state: Mutex<QueuedLines>,
    /// A line was added, or all lines were written.
    changed: Condvar,
}

#[derive(Default)]
struct QueuedLines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines dropped since the last line about them.
    dropped: u64,
    /// True while the thread writes lines that are no longer in the queue.
    is_writing: bool,
}

/// Adds each write as a line.
pub(super) struct LineWriter<'q>(&'q LineQueue);

impl LineQueue {
    /// Starts the thread that writes the lines to `file`.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(&self, file: impl Write + Send + 'static) -> io::Result<()> {
        let queue = self.clone();
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || queue.write_to(file))
            .map(drop)
    }

    /// Waits until all lines are written, at most for `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let is_pending = |state: &mut QueuedLines| state.is_writing || !state.lines.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.lock(), limit, is_pending);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.bytes.saturating_add(line.len()) > LONGEST {
            state.dropped = state.dropped.saturating_add(1);
            drop(state);
            LOG_DROPPED.with(["slow"]).increment(1);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_owned());
        drop(state);
        self.0.changed.notify_all();
    }

    fn write_to(&self, mut file: impl Write) {
        loop {
            let (lines, dropped) = self.next();
            for line in lines {
                if file.write_all(&line).and_then(|()| file.flush()).is_err() {
                    LOG_DROPPED.with(["closed"]).increment(1);
                }
            }
            let mut state = self.lock();
            state.is_writing = false;
            drop(state);
            self.0.changed.notify_all();
            if dropped > 0 {
                warn!(
                    lines = dropped,
                    "dropped log lines: standard error accepts them too slowly"
                );
            }
        }
    }

    /// Waits for lines, and takes all of them.
    fn next(&self) -> (VecDeque<Vec<u8>>, u64) {
        let waited = self
            .0
            .changed
            .wait_while(self.lock(), |state| state.lines.is_empty());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        state.bytes = 0;
        (mem::take(&mut state.lines), mem::take(&mut state.dropped))
    }

    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A file that accepts a line for each message of the test.
    struct SlowFile {
        permits: mpsc::Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for SlowFile {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.permits.recv().map_err(|_closed| io::ErrorKind::BrokenPipe)?;
            self.written.send(line.to_owned()).unwrap();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn slow_file_blocks_no_caller_and_lines_beyond_the_limit_are_counted() {
        let ((permit, permits), (written, lines)) = (mpsc::channel(), mpsc::channel());
        let queue = LineQueue::default();
        queue.start(SlowFile { permits, written }).unwrap();
        let line = [b'x'; 1024];
        // The thread holds the lines that it took before it waited for the file.
        for _ in 0..4 * LONGEST / line.len() {
            queue.make_writer().write_all(&line).unwrap();
        }
        let state = queue.lock();
        assert!(state.bytes <= LONGEST && state.dropped > 0, "{}", state.bytes);
        drop(state);
        queue.flush(Duration::from_millis(1));
        permit.send(()).unwrap();
        assert_eq!(lines.recv().unwrap(), line);
    }

    #[test]
    fn closed_file_blocks_no_caller() {
        let ((permit, permits), (written, _lines)) = (mpsc::channel(), mpsc::channel());
        drop(permit);
        let queue = LineQueue::default();
        queue.start(SlowFile { permits, written }).unwrap();
        for _ in 0..10_000 {
            queue.make_writer().write_all(b"line").unwrap();
        }
        queue.flush(Duration::from_secs(20));
        assert!(queue.lock().lines.is_empty());
    }

    #[test]
    fn flush_waits_for_the_last_line() {
        let ((permit, permits), (written, lines)) = (mpsc::channel(), mpsc::channel());
        let queue = LineQueue::default();
        queue.start(SlowFile { permits, written }).unwrap();
        permit.send(()).unwrap();
        queue.make_writer().write_all(b"last").unwrap();
        queue.flush(Duration::from_secs(20));
        assert_eq!(lines.try_recv().unwrap(), b"last");
    }
}
