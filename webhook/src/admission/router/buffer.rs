//! [`Buffer`]: memory for the bytes of one request body.

use std::io;

use bytes::{Buf, BufMut as _};
use memmap2::MmapMut;

/// The bytes of a body, as far as they have come.
pub(super) enum Buffer {
    /// In memory of the allocator, which is quick to get.
    Small(Vec<u8>),
    /// In pages of its own, which are the system's again the moment that they are not needed: allocators keep large
    /// pieces for each thread. Pages that nothing was written to take no memory.
    Large {
        /// Pages for the largest body.
        pages: MmapMut,
        length: usize,
    },
}

impl Buffer {
    /// Makes room for `capacity` bytes in all.
    pub(super) fn reserve(&mut self, capacity: usize) {
        if let Self::Small(bytes) = self {
            bytes.reserve_exact(capacity.saturating_sub(bytes.len()));
        }
    }

    /// The bytes, moved to pages with capacity for the largest body.
    ///
    /// # Errors
    /// If the system has no pages.
    pub(super) fn into_pages(self, longest: usize) -> io::Result<Self> {
        let Self::Small(bytes) = self else { return Ok(self) };
        let mut large = Self::Large {
            pages: MmapMut::map_anon(longest)?,
            length: 0,
        };
        large.put(bytes.as_slice());
        Ok(large)
    }

    /// Appends received data; the capacity is sufficient.
    pub(super) fn put(&mut self, mut data: impl Buf) {
        match self {
            Self::Small(bytes) => bytes.put(data),
            Self::Large { pages, length } => {
                let end = *length + data.remaining();
                if let Some(room) = pages.get_mut(*length..end) {
                    data.copy_to_slice(room);
                    *length = end;
                }
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Large { pages, length } => pages.get(..*length).unwrap_or_default(),
        }
    }
}
