//! Writes of the simulated Node's status by kubelet, nudges and sweeps, through admission into the stored Node.

use headroom_domain::{
    capacity::{NodeState, Writer},
    resource::{PerResource, Resource},
};

use super::{
    node_and_pods::{quantities, store},
    replica::SimulatedReplica,
    world::{CheckResult, PERIOD, SimulatedWorld},
};

/// Rounds of nudges and sweeps after which nothing may be due any more.
const ROUNDS: usize = 12;

impl SimulatedWorld {
    pub(super) fn start_anew(&mut self, replica: usize) {
        let version = self.stored.version;
        let bound = self
            .pods
            .iter()
            .map(|(uid, pod)| pod.object(uid, version))
            .collect();
        self.replicas[replica] = SimulatedReplica::new(&self.run, &self.stored, bound);
        self.started[replica] = self.now;
        self.informed[replica] = false;
    }

    /// True while one replica counts a higher age for the Node's hint than the other: there are no reports, and a
    /// replica that started later counts from later. It holds values that the other would lower.
    fn ages_differ(&self) -> bool {
        !self.streams.contains(&true) && self.started[0] != self.started[1]
    }

    /// First what a replica does that the agent has told nothing new, then what follows from its next report, and then
    /// pods come.
    pub(super) fn follow_up(&mut self) -> CheckResult {
        self.act()?;
        self.talk();
        self.act()?;
        self.grant();
        self.schedule()?;
        self.talk();
        self.act()
    }

    /// Nudges by the primary's replica and sweeps by a leader until nothing is due.
    fn act(&mut self) -> CheckResult {
        for _ in 0..ROUNDS {
            let primary = self.streams.iter().position(|is_open| *is_open);
            let nudge = primary.and_then(|replica| self.replicas[replica].nudge());
            // A deaf leader's touch is bound to a version that is not stored any more.
            let swept = self.replicas[0].sweep().filter(|_| !self.replicas[0].is_deaf());
            if nudge.is_none() && swept.is_none() {
                return self.check_all();
            }
            let version = self.stored.version;
            for note in nudge.map(Some).into_iter().chain(swept) {
                let mut new = self.stored.state.clone();
                if let Some(note) = &note {
                    new.annotations.hint = Some(note.as_str().into());
                }
                self.write(Writer::Other, new, note.as_deref())?;
            }
            let is_deaf = self.replicas.iter().any(SimulatedReplica::is_deaf);
            if version == self.stored.version && (is_deaf || self.ages_differ()) {
                return Ok(());
            }
        }
        if self.replicas.iter().any(SimulatedReplica::is_deaf) {
            return Ok(());
        }
        Err(format!(
            "after {ROUNDS} rounds something is still due: {:#?}",
            self.stored.state
        ))
    }

    /// The kubelet writes what it finds.
    pub(super) fn sync(&mut self) -> CheckResult {
        self.wait(PERIOD);
        let new = NodeState {
            allocatable: quantities(self.raw),
            capacity: quantities(self.capacity),
            ready_heartbeat: Some(self.now.to_string()),
            ..self.stored.state.clone()
        };
        self.write(Writer::Kubelet, new, None)?;
        self.follow_up()
    }

    /// A write of the status goes through admission and is stored.
    fn write(&mut self, writer: Writer, mut new: NodeState, nudged: Option<&str>) -> CheckResult {
        let replica = &self.replicas[self.route];
        let decision = replica.decide(&self.stored, (writer, &new), nudged);
        let known = replica.admitted();
        let is_deaf = replica.is_deaf();
        store(&mut new, &decision);
        let again = replica.decide(&self.stored, (writer, &new), nudged);
        let mut twice = new.clone();
        store(&mut twice, &again);
        if twice != new {
            return Err(format!("decided again, {new:?} becomes {twice:?}"));
        }
        let before = PerResource::from_fn(|resource| self.stored.allocatable(resource));
        if new != self.stored.state {
            self.stored.version += 1;
            self.stored.state = new;
        }
        for replica in &mut self.replicas {
            replica.observe(&self.stored);
        }
        let admitted = if is_deaf { known } else { self.admitted() };
        for resource in Resource::ALL {
            self.check_written(resource, *admitted.get(resource), *before.get(resource))?;
        }
        Ok(())
    }
}
