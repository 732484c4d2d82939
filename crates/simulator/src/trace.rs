//! The trace player: recorded days of real workloads become the use of simulated pods.
//!
//! A folder contains files `SET-RESOURCE-DAY.csv.gz`, resource `cpu` or `mem`: one line per workload, with its
//! identifier and 288 integers, one per five minutes: mean use in hundredths of a percent of the amount given to the
//! workload. A pod starts as a workload drawn with the seed, follows its identifier from day to day, and continues as
//! another workload if the set has no such line. At the end of the set its days repeat, and every workload is drawn
//! again. Requests and lives are drawn as for the synthetic load. Means of five minutes hide bursts: the node adds
//! the spread within a frame.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::MultiGzDecoder;
use headroom_domain::resource::Resource;
use rand::Rng as _;

use super::{
    random::Stream,
    source::{DAY, Nature, Source, Workload},
};

const ENDING: &str = ".csv.gz";

/// The days of one set for one resource, in order.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) resource: Resource,
    days: Vec<Day>,
}

/// The workloads of a day, sorted by identifier.
#[derive(Debug, Default)]
struct Day {
    lines: Vec<TraceRecord>,
}

#[derive(Debug)]
struct TraceRecord {
    workload: String,
    usage: Vec<u32>,
}

/// A set as the load of a run.
#[derive(Debug)]
pub(super) struct Playback<'a> {
    set: &'a Set,
    seed: u64,
    frames: usize,
}

/// All sets of a folder, by name and resource.
///
/// # Errors
/// If the folder or a file cannot be read, no file name matches, or a line is invalid; the error names file and line.
pub(super) fn sets(folder: &Path) -> Result<Vec<Set>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut files: BTreeMap<(String, Resource), BTreeMap<String, Day>> = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some(stem) = name.strip_suffix(ENDING) else {
            continue;
        };
        let (set, resource, day) = parts(stem).with_context(|| {
            format!(
                "{}: expected a name like SET-cpu-DAY{ENDING} or SET-mem-DAY{ENDING}",
                path.display()
            )
        })?;
        files
            .entry((set, resource))
            .or_default()
            .insert(day, Day::read(&path)?);
    }
    ensure!(
        !files.is_empty(),
        "{}: no file SET-RESOURCE-DAY{ENDING} in this folder",
        folder.display()
    );
    let set = |((name, resource), days): (_, BTreeMap<String, Day>)| Set {
        name,
        resource,
        days: days.into_values().collect(),
    };
    Ok(files.into_iter().map(set).collect())
}

/// Set, resource and day in a file name without its suffix.
fn parts(stem: &str) -> Option<(String, Resource, String)> {
    let mut parts = stem.rsplitn(3, '-');
    let (day, resource, set) = (parts.next()?, parts.next()?, parts.next()?);
    let resource = match resource {
        "cpu" => Resource::Cpu,
        "mem" => Resource::Memory,
        _ => return None,
    };
    (!day.is_empty() && !set.is_empty()).then(|| (set.to_owned(), resource, day.to_owned()))
}

impl Day {
    fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut day = Self::default();
        for (number, line) in BufReader::new(MultiGzDecoder::new(file)).lines().enumerate() {
            let place = || format!("{}, line {}", path.display(), number + 1);
            let line = line.with_context(|| format!("{}: cannot read", place()))?;
            day.lines.push(TraceRecord::parse(&line).with_context(place)?);
        }
        ensure!(!day.lines.is_empty(), "{}: the file is empty", path.display());
        day.lines.sort_by(|a, b| a.workload.cmp(&b.workload));
        let mut pairs = day.lines.iter().zip(day.lines.iter().skip(1));
        if let Some((twice, _)) = pairs.find(|(a, b)| a.workload == b.workload) {
            bail!("{}: workload {} has two lines", path.display(), twice.workload);
        }
        Ok(day)
    }

    /// Index of the workload's line.
    fn find(&self, workload: &str) -> Option<usize> {
        self.lines
            .binary_search_by(|line| line.workload.as_str().cmp(workload))
            .ok()
    }
}

impl TraceRecord {
    fn parse(text: &str) -> Result<Self> {
        let mut fields = text.split(',');
        let workload = fields.next().unwrap_or_default();
        ensure!(!workload.is_empty(), "the identifier is empty");
        let usage = fields.enumerate().map(|(at, field)| {
            let place = || {
                format!(
                    "value {} is {field:?}, not a whole number of hundredths of a percent",
                    at + 1
                )
            };
            field.parse::<u32>().with_context(place)
        });
        let usage: Vec<u32> = usage.collect::<Result<_>>()?;
        ensure!(usage.len() == DAY, "{} values, expected {DAY}", usage.len());
        Ok(Self {
            workload: workload.to_owned(),
            usage,
        })
    }
}

impl<'a> Playback<'a> {
    /// A set as the load of a run of `frames` frames.
    pub(super) fn new(set: &'a Set, seed: u64, frames: usize) -> Self {
        Self { set, seed, frames }
    }
}

impl Source for Playback<'_> {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn request(&self, node: u32, number: u32) -> u64 {
        Nature::draw(
            self.set.resource,
            &mut Stream::Pod { node, number }.generator(self.seed),
        )
        .request
    }

    /// The limit is the request: use was recorded as a share of the amount given to the workload.
    fn workload(&self, node: u32, number: u32, start: usize) -> Workload {
        let mut random = Stream::Pod { node, number }.generator(self.seed);
        let nature = Nature::draw(self.set.resource, &mut random);
        let end = start.saturating_add(nature.life).min(self.frames);
        let mut usage = Vec::with_capacity(end - start);
        let mut line: Option<&TraceRecord> = None;
        for frame in start..end {
            let at = frame / DAY % self.set.days.len();
            if frame == start || frame % DAY == 0 {
                let Some(day) = self.set.days.get(at) else { break };
                let continued = line.filter(|_| at > 0).and_then(|line| day.find(&line.workload));
                let place = continued.unwrap_or_else(|| random.random_range(0..day.lines.len()));
                line = day.lines.get(place);
            }
            let part = line
                .and_then(|line| line.usage.get(frame % DAY))
                .copied()
                .unwrap_or_default();
            usage.push(
                u64::try_from(u128::from(nature.request) * u128::from(part) / 10_000).unwrap_or(u64::MAX),
            );
        }
        Workload {
            limit: nature.request,
            usage,
        }
    }
}

#[cfg(test)]
mod tests;
