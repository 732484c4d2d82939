//! `LogDrain` passes log records of the kernel programs on to the agent's log. The supervisor flushes it.

use aya::Ebpf;
use aya_log::EbpfLogger;

/// The ring buffer's name, which is aya's own.
pub(super) const MAP: &str = "AYA_LOGS";
/// Its size in bytes, a page at least. Both the kernel and the agent have all of it in memory, the agent twice: aya's 128 KiB
/// would be 256 here.
pub(super) const MAP_BYTES: u32 = 16 << 10;

/// Reads the ring buffer the kernel programs log to, and hands each record to the `log` facade and so to `tracing`.
///
/// They log rare events only (victims of the OOM killer, at debug level), so calling [`LogDrain::flush`] once a poll is
/// plenty: the buffer holds some 100 records.
pub struct LogDrain {
    flush: Box<dyn FnMut() + Send>,
}

impl std::fmt::Debug for LogDrain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogDrain").finish_non_exhaustive()
    }
}

impl LogDrain {
    /// Must be called after the process has set up its logging: the logger of that moment is kept.
    pub(super) fn open(ebpf: &mut Ebpf) -> Result<Self, aya_log::Error> {
        let mut logger = EbpfLogger::init(ebpf)?;
        Ok(Self {
            flush: Box::new(move || logger.flush()),
        })
    }

    /// Passes on what has been logged since the last call. Does not block.
    pub fn flush(&mut self) {
        (self.flush)();
    }
}
