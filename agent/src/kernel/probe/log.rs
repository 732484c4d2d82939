//! `LogDrain` passes log records of the kernel programs on to the agent's log. The supervisor flushes it.

use aya::Ebpf;
use aya_log::EbpfLogger;

/// Name of the ring buffer, defined by aya.
pub(super) const MAP: &str = "AYA_LOGS";
/// Size of the ring buffer in bytes, at least one page. The kernel maps all of it, and the agent maps it twice: aya's default
/// of 128 KiB would take 256 KiB here.
pub(super) const MAP_BYTES: u32 = 16 << 10;

/// Reads the ring buffer that the kernel programs log to, and passes each record to the `log` facade and so to `tracing`.
///
/// They log only rare events (OOM victims, at debug level), so one [`LogDrain::flush`] per poll is enough: the buffer holds
/// about 100 records.
pub struct LogDrain {
    flush: Box<dyn FnMut() + Send>,
}

impl std::fmt::Debug for LogDrain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogDrain").finish_non_exhaustive()
    }
}

impl LogDrain {
    /// Must be called after logging is set up: it keeps the logger of that moment.
    pub(super) fn open(ebpf: &mut Ebpf) -> Result<Self, aya_log::Error> {
        let mut logger = EbpfLogger::init(ebpf)?;
        Ok(Self {
            flush: Box::new(move || logger.flush()),
        })
    }

    /// Passes on the records since the last call. Does not block.
    pub fn flush(&mut self) {
        (self.flush)();
    }
}
