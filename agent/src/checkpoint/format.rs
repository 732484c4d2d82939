//! The bytes of a checkpoint: a mark, the schema's version, length and checksum, and the record.

use super::{CheckpointError, Record};

/// What every checkpoint begins with.
const MARK: [u8; 8] = *b"HEADROOM";
/// The schema of the record: raised with every change of what a [`Record`] is made of.
pub(super) const VERSION: u32 = 1;
const VERSION_AT: usize = MARK.len();
const LENGTH_AT: usize = VERSION_AT + 4;
const CHECKSUM_AT: usize = LENGTH_AT + 4;
const RECORD_AT: usize = CHECKSUM_AT + 4;

/// The bytes of a record.
///
/// # Errors
/// The record cannot be written down.
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, CheckpointError> {
    let record = postcard::to_stdvec(record)?;
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(RECORD_AT + record.len());
    bytes.extend(MARK);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(checksum(&bytes, &record).to_le_bytes());
    bytes.extend(record);
    Ok(bytes)
}

/// The record of the bytes.
///
/// # Errors
/// They are not what [`encode`] of this version makes.
pub(super) fn decode(bytes: &[u8]) -> Result<Record, CheckpointError> {
    if bytes.get(..VERSION_AT) != Some(&MARK) {
        return Err(CheckpointError::Foreign);
    }
    let number = |at: usize| {
        let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
        found
            .copied()
            .map(u32::from_le_bytes)
            .ok_or(CheckpointError::Truncated)
    };
    let found = number(VERSION_AT)?;
    if found != VERSION {
        return Err(CheckpointError::Version { found });
    }
    let (length, expected) = (number(LENGTH_AT)?, number(CHECKSUM_AT)?);
    let (head, record) = bytes
        .split_at_checked(RECORD_AT)
        .ok_or(CheckpointError::Truncated)?;
    match u32::try_from(record.len()) {
        Ok(found) if found == length => {}
        Ok(found) if found < length => return Err(CheckpointError::Truncated),
        Ok(_) | Err(_) => return Err(CheckpointError::Damaged),
    }
    let head = head.get(..CHECKSUM_AT).unwrap_or_default();
    if checksum(head, record) != expected {
        return Err(CheckpointError::Damaged);
    }
    Ok(postcard::from_bytes(record)?)
}

fn checksum(head: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(record);
    hasher.finalize()
}
