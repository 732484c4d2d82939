//! What follows for the node when the kernel programs shed, were linked anew, or are lost.

use tracing::warn;

use super::Decider;
use crate::{
    gather::{Shed, Standing},
    sample::Origin,
};

impl Decider {
    /// Says when the kernel programs stand otherwise than before, and what follows.
    pub(super) fn take_standing(&mut self, standing: &Standing) {
        let calm = Standing::counting(Shed::Nothing);
        let before = self.seen.standing.replace(standing.clone()).unwrap_or(calm);
        if before == *standing {
            return;
        }
        // Shedding changes sampling alone; otherwise busy time went uncounted just before.
        if before.relinked() != standing.relinked() {
            self.frames.void();
        }
        self.senses.take(standing);
        self.see_kernel();
        let (sight, sentence) = self.senses.mode(None);
        warn!(mode = %sight, "{sentence}");
    }

    /// Tells the estimator whether the kernel programs are counting.
    pub(super) fn see_kernel(&mut self) {
        self.estimator.set_sees_kernel(self.senses.origin == Origin::Ebpf);
    }
}
