//! `unmap` removes pages of the program and its libraries from the agent's memory.
//!
//! Most of the agent's memory is pages of files, and most of those are used only at its start. The kernel maps the cached
//! pages around each page that is used, and leaves them mapped while memory is plentiful.
#![expect(unsafe_code, reason = "advice on memory has no safe interface")]

use std::{fs, io, num::ParseIntError, ops::Range, ptr};

use libc::{MADV_DONTNEED, madvise};

/// The kernel's list of this process's mappings.
const MAPPINGS: &str = "/proc/self/smaps";

/// A mapping, parsed from its first line in smaps.
struct Mapping {
    addresses: Range<usize>,
    /// True for a file that this mapping cannot write to.
    is_read_only_file: bool,
}

/// Unmaps pages that are identical to their files. They stay in the page cache, and the kernel maps them again at the next
/// use.
///
/// # Errors
/// The list of mappings cannot be read, or the kernel refused a mapping; the others are unmapped anyway.
pub(crate) fn unmap() -> io::Result<()> {
    let mut result = Ok(());
    for addresses in unchanged_files(&fs::read_to_string(MAPPINGS)?) {
        let start = ptr::without_provenance_mut(addresses.start);
        // SAFETY: no data is lost. The mapping is a file that this process cannot write to, without private copies of
        // pages: the next access reads the same bytes from the file.
        if unsafe { madvise(start, addresses.len(), MADV_DONTNEED) } != 0 {
            result = Err(io::Error::last_os_error());
        }
    }
    result
}

/// Addresses of read-only file mappings without private pages, such as written or relocated ones.
fn unchanged_files(smaps: &str) -> Vec<Range<usize>> {
    let (mut found, mut file) = (Vec::new(), None);
    for line in smaps.lines() {
        if let Some(own) = line.strip_prefix("Anonymous:") {
            found.extend(file.take().filter(|_| own.trim() == "0 kB"));
        } else if let Some(mapping) = mapping(line) {
            file = mapping.is_read_only_file.then_some(mapping.addresses);
        }
    }
    found
}

/// Parses the first line of a mapping: addresses, rights, offset, device, inode, file. `None` for other lines.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let addresses = addresses(fields.next()?)?.ok()?;
    let (rights, path) = (fields.next()?, fields.nth(3));
    Some(Mapping {
        addresses,
        is_read_only_file: matches!(rights, "r-xp" | "r--p")
            && path.is_some_and(|path| path.starts_with('/')),
    })
}

fn addresses(field: &str) -> Option<Result<Range<usize>, ParseIntError>> {
    let (start, end) = field.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16);
    Some(address(start).and_then(|start| Ok(start..address(end)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-3000 r--p 00000000 fe:00 42                 /usr/bin/headroom-agent
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
3000-9000 r-xp 00002000 fe:00 42                 /usr/bin/headroom-agent
Anonymous:             0 kB
9000-a000 r--p 00008000 fe:00 42                 /usr/bin/headroom-agent
Anonymous:             4 kB
a000-b000 rw-p 00009000 fe:00 42                 /usr/bin/headroom-agent
Anonymous:             0 kB
c000-d000 rw-p 00000000 00:00 0                  [heap]
Anonymous:             0 kB
d000-e000 r--s 00000000 00:10 1                  anon_inode:bpf-map
Anonymous:             0 kB
e000-f000 r--p 00000000 00:00 0 
Anonymous:             0 kB
f000-10000 r--s 00000000 fe:00 43                /a/shared file
Anonymous:             0 kB
7f00-7f10 r-xp 00000000 fe:00 44                 /usr/lib/libc.so.6 (deleted)
Anonymous:             0 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Anonymous:             0 kB
";

    #[test]
    fn only_unchanged_files_are_unmapped() {
        assert_eq!(
            unchanged_files(SMAPS),
            [0x1000..0x3000, 0x3000..0x9000, 0x7f00..0x7f10]
        );
    }

    #[test]
    fn truncated_or_malformed_smaps_unmap_nothing() {
        for text in [
            "",
            "Anonymous: 0 kB",
            "1000-3000 r--p 00000000 fe:00 42 /usr/bin/a",
            "1000-3000 r--p\nAnonymous: 0 kB",
            "1000-x r--p 00000000 fe:00 42 /usr/bin/a\nAnonymous: 0 kB",
            "1000-3000 r--p 00000000 fe:00 42 /usr/bin/a\nAnonymous:",
        ] {
            assert!(unchanged_files(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn this_program_continues_without_its_pages() {
        unmap().unwrap();
        assert!(!unchanged_files(&fs::read_to_string(MAPPINGS).unwrap()).is_empty());
    }
}
