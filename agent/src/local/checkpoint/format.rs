//! Byte format of a checkpoint file: magic bytes, schema version, length, CRC-32 and payload.

use serde::{Serialize, de::DeserializeOwned};

use super::CheckpointError;

/// Magic bytes at the start of every checkpoint.
const MARK: [u8; 8] = *b"HEADROOM";
const VERSION_AT: usize = MARK.len();
const LENGTH_AT: usize = VERSION_AT + 4;
const CHECKSUM_AT: usize = LENGTH_AT + 4;
const RECORD_AT: usize = CHECKSUM_AT + 4;

/// Encodes a record with this schema version.
///
/// # Errors
/// The record cannot be serialized.
pub(super) fn encode(version: u32, content: &impl Serialize) -> Result<Vec<u8>, CheckpointError> {
    let record = postcard::to_stdvec(content)?;
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(RECORD_AT + record.len());
    bytes.extend(MARK);
    bytes.extend(version.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(checksum(&bytes, &record).to_le_bytes());
    bytes.extend(record);
    Ok(bytes)
}

/// Decodes a record. Also returns trailing bytes, which a later agent with the same schema version may have added.
///
/// # Errors
/// Magic bytes, version, length or checksum do not match, or the record cannot be deserialized.
pub(super) fn decode<T: DeserializeOwned>(version: u32, bytes: &[u8]) -> Result<(T, &[u8]), CheckpointError> {
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
    if found != version {
        return Err(CheckpointError::Version {
            found,
            known: version,
        });
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
    Ok(postcard::take_from_bytes(record)?)
}

fn checksum(head: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(record);
    hasher.finalize()
}
