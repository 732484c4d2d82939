//! `encode` writes a BTF file of a few types under the type ids that they have in another file.
//!
//! A typed program is attached by the type id of its tracepoint in the running kernel's BTF. The loader looks ids up by name,
//! for which this excerpt is enough: 16,000 types up to the last of our tracepoints instead of 126,000 on Linux 6.18, and
//! none of them with members.

use std::collections::BTreeMap;

use super::types::{KIND_CONST, KIND_TYPEDEF, MAGIC};

/// Size of the header in bytes.
const HEADER: u32 = 24;
/// Size in bytes of a type without a variable part.
const TYPE: usize = 12;

/// A file of these typedefs by type id, counted from 1. Each is a typedef of `void`; the ids between them are nameless `const
/// void`.
pub(super) fn encode(typedefs: &BTreeMap<u32, String>) -> Vec<u8> {
    let last = typedefs.keys().next_back().copied().unwrap_or(0);
    let mut types = Vec::with_capacity(TYPE.saturating_mul(last as usize));
    // The string section begins with the empty name.
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
    // The magic number, version 1 and no flags; offsets of types and strings after the header, and their lengths.
    let lengths = [HEADER, 0, length(&types), length(&types), length(&strings)];
    let mut bytes = Vec::with_capacity(HEADER as usize + types.len() + strings.len());
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend([1, 0]);
    bytes.extend(lengths.into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(types);
    bytes.extend(strings);
    bytes
}

/// A length in the format's 32 bits. It cannot exceed them: the names come from a file below 4 GiB.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
