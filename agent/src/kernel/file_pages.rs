//! `unmap` takes pages of the program and its libraries out of the agent's memory.
//!
//! Most of the agent's memory is pages of files, and most of those serve its start alone. The kernel maps what it has read of a
//! file around each place that is used, and leaves it mapped for as long as memory is plentiful.
#![expect(unsafe_code, reason = "advice on memory has no safe interface")]

use std::{fs, io, num::ParseIntError, ops::Range, ptr};

use libc::{MADV_DONTNEED, madvise};

/// Where the kernel describes what this process has mapped.
const MAPPINGS: &str = "/proc/self/smaps";

/// A mapping, by the first of the lines on it.
struct Mapping {
    addresses: Range<usize>,
    /// Is it a file that nobody can write to here?
    is_read_only_file: bool,
}

/// Takes pages of files out of this process's memory that are as in their files. They stay in the page cache, and are mapped
/// again where they are used again.
///
/// # Errors
/// What is mapped cannot be read, or the kernel refused some of it; the rest is unmapped all the same.
pub(crate) fn unmap() -> io::Result<()> {
    let mut result = Ok(());
    for addresses in unchanged_files(&fs::read_to_string(MAPPINGS)?) {
        let start = ptr::without_provenance_mut(addresses.start);
        // SAFETY: nothing is lost. A file is mapped there that this process cannot write to, and no page is a copy of its
        // own: what is used again is read from the file again, and is as it was.
        if unsafe { madvise(start, addresses.len(), MADV_DONTNEED) } != 0 {
            result = Err(io::Error::last_os_error());
        }
    }
    result
}

/// Where files are mapped of which this process has no page of its own: none that it has written to or relocated.
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

/// The mapping that a line begins: addresses, rights, offset, device, inode, and the file.
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
    fn only_files_are_unmapped_that_are_as_they_were() {
        assert_eq!(
            unchanged_files(SMAPS),
            [0x1000..0x3000, 0x3000..0x9000, 0x7f00..0x7f10]
        );
    }

    #[test]
    fn what_is_cut_off_or_is_none_of_it_is_left_alone() {
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
    fn this_program_runs_on_without_its_pages() {
        unmap().unwrap();
        assert!(!unchanged_files(&fs::read_to_string(MAPPINGS).unwrap()).is_empty());
    }
}
