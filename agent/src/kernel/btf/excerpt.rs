//! `encode` writes a BTF file of a few types under the numbers that they have in another one.
//!
//! A typed program is attached by the number of its tracepoint's type in the running kernel's BTF. Who looks numbers up by
//! names needs no more of it than this: 16,000 types for the last of our tracepoints in place of 126,000 on Linux 6.18, and
//! none of them with members.

use std::collections::BTreeMap;

use super::types::{KIND_CONST, KIND_TYPEDEF, MAGIC};

/// Bytes of the header.
const HEADER: u32 = 24;
/// Bytes of a type that has nothing behind its fixed part.
const TYPE: usize = 12;

/// A file of these typedefs by their numbers, counted from 1. Each is one of `void`, and so is what lies between them, which
/// has no name.
pub(super) fn encode(typedefs: &BTreeMap<u32, String>) -> Vec<u8> {
    let last = typedefs.keys().next_back().copied().unwrap_or(0);
    let mut types = Vec::with_capacity(TYPE.saturating_mul(last as usize));
    // The empty name is the first.
    let mut strings = vec![0];
    for id in 1..=last {
        let (name, kind) = match typedefs.get(&id) {
            Some(name) => {
                let at = length(&strings);
                strings.extend(name.bytes().chain([0]));
                (at, KIND_TYPEDEF)
            }
            None => (0, KIND_CONST),
        };
        types.extend([name, kind << 24, 0].into_iter().flat_map(u32::to_le_bytes));
    }
    // The magic number, version 1 and no flags; where types and strings begin behind the header, and how long they are.
    let lengths = [HEADER, 0, length(&types), length(&types), length(&strings)];
    let mut bytes = Vec::with_capacity(HEADER as usize + types.len() + strings.len());
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend([1, 0]);
    bytes.extend(lengths.into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(types);
    bytes.extend(strings);
    bytes
}

/// A length as the format has it. All of it comes from a file below 4 GiB; beyond that nobody could read it.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
