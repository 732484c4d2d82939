//! [`ProcessResources`] measures parts of a process: memory by kind of mapping, descriptors by kind, and the kernel
//! memory of its maps and programs.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

/// Amounts by name of the part.
pub type Parts = BTreeMap<&'static str, u64>;

/// Resources of a process at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessResources {
    /// Resident memory in KiB, summed over pages; the kernel's counters lag a little behind.
    pub memory_kib: Parts,
    pub descriptors: Parts,
    /// Kernel memory in KiB of the maps and programs of its descriptors.
    pub kernel_kib: Parts,
    /// Resident memory in KiB by the kernel's counters, as shown by common tools.
    pub counted_kib: u64,
}

impl ProcessResources {
    /// Current resources of a process.
    pub fn read(pid: u32) -> Self {
        let (mut descriptors, mut kernel_kib) = (Parts::new(), Parts::new());
        for Descriptor { target, info, .. } in descriptors_of(pid) {
            *descriptors.entry(kind(&target, &info)).or_default() += 1;
            if let Some(bytes) = field(&info, "memlock:") {
                let bytes: u64 = bytes.parse().expect("bytes");
                *kernel_kib.entry(kind(&target, &info)).or_default() += bytes / 1024;
            }
        }
        let smaps = fs::read_to_string(process(pid).join("smaps")).expect("its mappings");
        Self {
            memory_kib: resident_parts(&smaps),
            descriptors,
            kernel_kib,
            counted_kib: counted_kib(pid, "VmRSS"),
        }
    }

    /// Total resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib.values().sum()
    }
}

impl fmt::Display for ProcessResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            memory_kib,
            descriptors,
            kernel_kib,
            counted_kib,
        } = self;
        write!(
            f,
            "memory in KiB {memory_kib:?}, by the kernel's counters {counted_kib}; descriptors {descriptors:?}; kernel \
             memory in KiB {kernel_kib:?}"
        )
    }
}

/// Growth of each part; parts that shrank are left out.
pub fn growth(before: &Parts, after: &Parts) -> Parts {
    let more = |(part, now): (&&'static str, &u64)| {
        let grown = now.saturating_sub(before.get(part).copied().unwrap_or(0));
        (grown > 0).then_some((*part, grown))
    };
    after.iter().filter_map(more).collect()
}

/// Lowest growth of each part over all samples: a leak grows each time, moved memory does not.
pub fn least(growths: &[Parts]) -> Parts {
    let mut growths = growths.iter();
    let mut least = growths.next().cloned().unwrap_or_default();
    for growth in growths {
        least.retain(|part, amount| match growth.get(part) {
            Some(other) => {
                *amount = (*amount).min(*other);
                true
            }
            None => false,
        });
    }
    least
}

/// Growth of each part over all samples except its highest.
pub fn without_highest(growths: &[Parts]) -> Parts {
    let mut sums: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for (part, amount) in growths.iter().flatten() {
        let (sum, most) = sums.entry(part).or_default();
        *sum += amount;
        *most = (*most).max(*amount);
    }
    let without_highest = |(part, (sum, most))| (part, sum - most);
    sums.into_iter().map(without_highest).collect()
}

/// One descriptor of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub number: i32,
    pub target: PathBuf,
    /// The kernel's `fdinfo`, line by line.
    pub info: String,
}

/// Descriptors of a process; those closed meanwhile are left out.
pub fn descriptors_of(pid: u32) -> Vec<Descriptor> {
    let mut found = Vec::new();
    for entry in fs::read_dir(process(pid).join("fd")).expect("its files") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a number").to_owned();
        let info = fs::read_to_string(process(pid).join("fdinfo").join(&name));
        if let (Ok(target), Ok(info)) = (fs::read_link(&path), info) {
            found.push(Descriptor {
                number: name.to_string_lossy().parse().expect("a number"),
                target,
                info,
            });
        }
    }
    found
}

/// Links of a process to tracepoints: tracepoint and descriptor.
pub fn links_of(pid: u32) -> Vec<(String, i32)> {
    let link = |descriptor: &Descriptor| {
        field(&descriptor.info, "link_id:")?;
        let tracepoint = field(&descriptor.info, "tp_name:").unwrap_or_default();
        Some((tracepoint.to_owned(), descriptor.number))
    };
    descriptors_of(pid).iter().filter_map(link).collect()
}

/// Kernel ids of the maps of a process.
pub fn maps_of(pid: u32) -> Vec<u32> {
    let map = |descriptor: &Descriptor| field(&descriptor.info, "map_id:")?.parse().ok();
    descriptors_of(pid).iter().filter_map(map).collect()
}

/// A counter of a process in KiB: `VmRSS`, or `VmHWM` for the peak.
pub fn counted_kib(pid: u32, figure: &str) -> u64 {
    let status = fs::read_to_string(process(pid).join("status")).expect("its status");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    line.and_then(kib).expect("the figure")
}

fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

fn kib(field: &str) -> Option<u64> {
    field.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn kind(target: &Path, info: &str) -> &'static str {
    let target = target.to_string_lossy();
    // The descriptor of a link names its program too.
    if field(info, "link_id:").is_some() {
        "links"
    } else if field(info, "prog_id:").is_some() {
        "programs"
    } else if field(info, "map_id:").is_some() {
        "maps"
    } else if target.starts_with("socket:") {
        "sockets"
    } else if target.starts_with("anon_inode:") {
        "events"
    } else {
        "files"
    }
}

/// Resident memory by kind of mapping.
fn resident_parts(smaps: &str) -> Parts {
    let (mut parts, mut part) = (Parts::new(), "");
    for line in smaps.lines() {
        if let Some(resident) = line.strip_prefix("Rss:") {
            *parts.entry(part).or_default() += kib(resident).expect("a size");
        } else if let Some(name) = mapping(line) {
            part = match name {
                "[heap]" => "heap",
                "[stack]" => "stack",
                "" => "anonymous",
                name if name.starts_with("[anon") => "anonymous",
                name if name.contains("bpf") => "bpf buffers",
                name if name.starts_with('[') => "kernel's pages",
                _ => "program and libraries",
            };
        }
    }
    parts
}

/// Name of a mapping, if the line starts one: addresses, permissions, offset, device, inode, name.
fn mapping(line: &str) -> Option<&str> {
    let (addresses, rest) = line.split_once(' ')?;
    let (from, to) = addresses.split_once('-')?;
    let is_hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hexadecimal(from) || !is_hexadecimal(to) {
        return None;
    }
    Some(rest.splitn(5, ' ').nth(4).unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55e0-55e9 r-xp 00000000 fe:00 42                 /usr/bin/headroom-agent
Rss:                 100 kB
Pss:                  50 kB
60a0-60b0 rw-p 00000000 00:00 0                  [heap]
Rss:                  36 kB
7f00-7f10 rw-p 00000000 00:00 0 
Rss:                   8 kB
7f20-7f30 rw-s 00000000 00:10 1                  anon_inode:bpf-map
Rss:                   4 kB
7f40-7f50 rw-p 00000000 00:00 0                  [anon: stack]
Rss:                  12 kB
VmFlags: rd wr
";

    #[test]
    fn memory_is_told_apart_by_what_it_is_mapped_for() {
        let expected = [
            ("program and libraries", 100),
            ("heap", 36),
            ("anonymous", 20),
            ("bpf buffers", 4),
        ];
        assert_eq!(resident_parts(SMAPS), Parts::from(expected));
    }

    #[test]
    fn what_happens_once_is_left_out_of_what_lasts() {
        let growths = [
            Parts::from([("heap", 10)]),
            Parts::from([("heap", 3_500), ("stack", 4)]),
            Parts::from([("heap", 10)]),
        ];
        let expected = Parts::from([("heap", 20), ("stack", 0)]);
        assert_eq!(without_highest(&growths), expected);
        assert_eq!(without_highest(&[]), Parts::new());
    }

    #[test]
    fn only_what_grows_each_time_is_left_over() {
        let before = Parts::from([("heap", 10), ("anonymous", 10)]);
        let first = growth(
            &before,
            &Parts::from([("heap", 50), ("anonymous", 14), ("files", 1)]),
        );
        assert_eq!(first, Parts::from([("heap", 40), ("anonymous", 4), ("files", 1)]));
        let second = growth(&before, &Parts::from([("heap", 9), ("anonymous", 30)]));
        assert_eq!(least(&[first, second]), Parts::from([("anonymous", 4)]));
        assert_eq!(least(&[]), Parts::new());
    }

    #[test]
    fn this_process_holds_memory_and_files() {
        let held = ProcessResources::read(std::process::id());
        assert!(held.resident_kib() > 0 && held.counted_kib > 0, "{held}");
        assert!(held.descriptors.values().sum::<u64>() > 0, "{held}");
        assert_eq!(links_of(std::process::id()), []);
    }
}
