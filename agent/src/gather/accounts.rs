//! The second thread of `gather` reads the CPU and memory accounts of pods, whose summing can take the kernel long.
//! The sampling thread requests them and collects a finished answer at a later sample. It never waits, so no brake is
//! late.

use std::{
    collections::BTreeSet,
    io,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread,
    time::Duration,
};

use headroom_domain::estimate::Timing;
use tracing::{info, warn};

use super::{
    GatheredSignal, MemoryUse, POLL, PinnedUse, PodFrame, empty_pods::EmptyPodsReader, interval::Every,
    pinned_pods, pods,
};
use crate::{
    gather::read_errors::ReadErrors,
    sample::{
        SampleError,
        cgroup::Kubepods,
        clock::{Clocks, nanoseconds},
        procfs::Procfs,
    },
};

/// A slower answer is reported.
const LATE: Duration = Duration::from_secs(5);
/// Part of a frame by which the pods' use is read before its end, 5 s of 300, so that it is available at the end.
const LEAD_PART: u32 = 60;
/// It is read no later than this before the end.
const LEAST_LEAD: Duration = POLL.saturating_mul(2);

/// The reading thread has ended.
#[derive(Debug)]
pub(super) struct Gone;

/// Request to the reader: the location of pods, and the number of created and removed cgroups, if known.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) kubepods: Option<Kubepods>,
    pub(super) cgroup_changes: Option<u64>,
}

/// Readings of the reader. A value that was not due or not readable is `None`.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Use of the pods in a frame, and the frame's number.
    pub(super) pods: Option<(u64, PodFrame)>,
    pub(super) memory: Option<MemoryUse>,
    pub(super) pinned_use: Option<Vec<PinnedUse>>,
    /// Pods with a cgroup, if none of them has a process.
    pub(super) empty_pods: Option<BTreeSet<String>>,
    failing: BTreeSet<GatheredSignal>,
}

#[derive(Debug)]
pub(super) struct Accounts {
    questions: SyncSender<Question>,
    answers: Receiver<Answer>,
    /// Time of the open question.
    asked_ns: Option<u64>,
    is_late: bool,
    has_answered: bool,
    /// Signals that failed in the last answer.
    failing: BTreeSet<GatheredSignal>,
}

#[derive(Debug)]
struct AccountReader {
    files: Procfs,
    lead: Duration,
    pods: pods::PodReader,
    held: pinned_pods::Watcher,
    empty_pods: EmptyPodsReader,
    memory: Every,
    read_errors: ReadErrors,
}

impl Accounts {
    /// Starts the thread; it ends when the returned value is dropped, after its current read.
    ///
    /// # Errors
    /// If no thread can be had.
    pub(super) fn start(files: Procfs, timing: &Timing) -> io::Result<Self> {
        // One question at a time: neither end ever waits for room.
        let (questions_tx, questions) = sync_channel(1);
        let (answers_tx, answers) = sync_channel(1);
        let mut reader = AccountReader::new(files, timing);
        let body = move || {
            for question in questions {
                if answers_tx.send(reader.answer(Clocks::read(), &question)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("accounts".to_owned()).spawn(body)?;
        Ok(Self {
            questions: questions_tx,
            answers,
            asked_ns: None,
            is_late: false,
            has_answered: false,
            failing: BTreeSet::new(),
        })
    }

    /// Takes the answer to the question before, if there is one by now, and asks the next once there is.
    pub(super) fn turn(&mut self, at: Clocks, question: Question) -> Result<Option<Answer>, Gone> {
        let answer = match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => return Err(Gone),
        };
        if let Some(Answer { failing, .. }) = &answer {
            self.has_answered = true;
            self.failing.clone_from(failing);
            self.asked_ns = None;
        }
        if self.asked_ns.is_none() {
            self.questions.try_send(question).map_err(|_gone| Gone)?;
        }
        let asked_ns = *self.asked_ns.get_or_insert(at.monotonic_ns);
        self.set_failing(at.monotonic_ns.saturating_sub(asked_ns) >= nanoseconds(LATE));
        Ok(answer)
    }

    /// Was there an answer yet?
    pub(super) const fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Signals that fail now. Pods fail while their reading takes too long.
    pub(super) fn failing(&self) -> impl Iterator<Item = GatheredSignal> {
        let late = self.is_late.then_some(GatheredSignal::Pods);
        self.failing.iter().copied().chain(late)
    }

    fn set_failing(&mut self, is_late: bool) {
        if std::mem::replace(&mut self.is_late, is_late) == is_late {
            return;
        }
        if is_late {
            warn!(
                after = ?LATE,
                "the kernel takes too long to sum up pods' use; brakes continue, and frames have no \
                 pods until it answers"
            );
        } else {
            info!("pods' use is read again");
        }
    }
}

impl AccountReader {
    fn new(files: Procfs, timing: &Timing) -> Self {
        Self {
            files,
            lead: LEAST_LEAD.max(timing.frame() / LEAD_PART),
            pods: pods::PodReader::new(timing),
            held: pinned_pods::Watcher::new(timing.memory_sample),
            empty_pods: EmptyPodsReader::new(),
            memory: Every::new(timing.memory_sample),
            read_errors: ReadErrors::default(),
        }
    }

    fn answer(&mut self, at: Clocks, question: &Question) -> Answer {
        let Question {
            kubepods,
            cgroup_changes,
        } = question;
        let kubepods = kubepods.as_ref();
        let memory = self.memory(at, kubepods);
        let soon = Clocks {
            boottime_ns: at.boottime_ns.saturating_add(nanoseconds(self.lead)),
            ..at
        };
        let frame = self.pods.frame();
        let (pods, read) = self.pods.turn(soon, kubepods, *cgroup_changes);
        // Until the next successful scan the last failure stays.
        if read.is_err() || self.pods.is_scanned() {
            self.read_errors.note(read, GatheredSignal::Pods);
        }
        let held = self.held.turn(at, &self.files, kubepods);
        let uncounted = self.held.uncounted_milli();
        // It only warns, and the other readings report files that cannot be read.
        let empty_pods = self.empty_pods.turn(at, kubepods).ok().flatten();
        Answer {
            pods: pods.map(|pods| (frame, pods.without_uncounted(uncounted))),
            memory,
            pinned_use: self.read_errors.note(held, GatheredSignal::Cpusets),
            empty_pods,
            failing: self.read_errors.failing().clone(),
        }
    }

    fn memory(&mut self, at: Clocks, kubepods: Option<&Kubepods>) -> Option<MemoryUse> {
        if !self.memory.is_due(at.monotonic_ns) {
            return None;
        }
        let read = || -> Result<_, SampleError> {
            let node = self.files.meminfo()?;
            let working_set = kubepods.map(Kubepods::working_set).transpose()?.flatten();
            Ok(MemoryUse { node, working_set })
        };
        let read = read();
        self.read_errors.note(read, GatheredSignal::Memory)
    }
}

#[cfg(test)]
mod tests;
