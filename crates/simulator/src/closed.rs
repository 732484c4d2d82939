//! The closed loop: each node refills from an endless backlog whenever its policy leaves room.
//!
//! `Run` is also used for the open loop (`open`), where pods are placed as under raw Kubernetes and every policy only
//! predicts.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use anyhow::{Result, anyhow};

use super::{
    figures::Figures,
    node::{Identity, Node, Pod},
    policy::{Policy, Settings},
    source::{Source, Workload},
};

/// Limit of pods that a node receives in one frame.
pub(super) const MOST_BOUND: usize = 6;

/// Parameters of a run, independent of the policy.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) nodes: u32,
    pub(super) frames: usize,
    /// Coefficient of variation of a pod's use within a frame.
    pub(super) cv: f64,
    pub(super) settings: Settings,
}

/// A node's backlog: its first pod waits until it fits, and all others wait behind it.
pub(super) struct Backlog<'a> {
    source: &'a dyn Source,
    node: u32,
    number: u32,
    /// Request of its first pod.
    pub(super) request: u64,
}

impl<'a> Backlog<'a> {
    pub(super) fn new(source: &'a dyn Source, node: u32) -> Self {
        Self {
            source,
            node,
            number: 0,
            request: source.request(node, 0),
        }
    }

    pub(super) fn next_pod(&mut self, start: usize) -> Pod {
        let Workload { limit, usage } = self.source.workload(self.node, self.number, start);
        let pod = Pod {
            uid: format!("pod-{:06}", self.number),
            owner: None,
            request: self.request,
            limit,
            start,
            usage,
        };
        self.number += 1;
        self.request = self.source.request(self.node, self.number);
        pod
    }
}

impl Run<'_> {
    /// Runs one node under one policy; `observe` receives each frame with its allocatable.
    pub(super) fn play<P: Policy + ?Sized>(
        &self,
        node: u32,
        policy: &mut P,
        mut observe: impl FnMut(&Node, u64, &mut P),
    ) {
        let mut backlog = Backlog::new(self.source, node);
        let identity = Identity {
            seed: self.source.seed(),
            number: node,
        };
        let mut node = Node::new(self.settings.machine, self.cv, self.frames, identity);
        for frame in 0..self.frames {
            node.begin(frame);
            let mut allocatable = policy.allocatable(&node);
            for _ in 0..MOST_BOUND {
                if node.bound() + backlog.request > allocatable {
                    break;
                }
                node.bind(backlog.next_pod(frame));
                allocatable = policy.allocatable(&node);
            }
            observe(&node, allocatable, policy);
            policy.end_frame(&node);
        }
    }

    /// The figures of each node under a policy.
    ///
    /// # Errors
    /// If a thread ended early.
    pub(super) fn figures(&self, build: fn(&Settings) -> Box<dyn Policy>) -> Result<Vec<Figures>> {
        self.each_node(|node| {
            let mut figures = Figures::default();
            self.play(
                node,
                build(&self.settings).as_mut(),
                |node, allocatable, policy| {
                    figures.record(node, allocatable, policy.predicted_peak(node));
                },
            );
            figures
        })
    }

    /// Calls `of_node` for each node on one thread per CPU; results are in the order of nodes.
    ///
    /// # Errors
    /// If a thread ended early.
    pub(super) fn each_node<T: Send>(&self, of_node: impl Fn(u32) -> T + Sync) -> Result<Vec<T>> {
        in_parallel(self.nodes, of_node)
    }
}

/// Calls `run` for each number below `count` on one thread per CPU; results are in the order of numbers.
///
/// # Errors
/// If a thread ended early.
pub(super) fn in_parallel<T: Send>(count: u32, run: impl Fn(u32) -> T + Sync) -> Result<Vec<T>> {
    let next = AtomicU32::new(0);
    let work = || {
        let mine = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        mine.take_while(|&number| number < count)
            .map(|number| (number, run(number)))
            .collect::<Vec<_>>()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let done: Result<Vec<Vec<(u32, T)>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|of_thread| of_thread.map_err(|_panic| anyhow!("a thread of the simulation ended early")))
            .collect()
    });
    let mut done: Vec<(u32, T)> = done?.into_iter().flatten().collect();
    done.sort_by_key(|&(number, _)| number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
