//! What follows for the node when the kernel programs shed, were linked anew, or are lost.

use super::Decider;
use crate::{
    gather::{Shed, Standing},
    sample::Origin,
};

impl Decider {
    /// Takes in how the kernel programs stand, if otherwise than before.
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
    }

    /// Tells the estimator whether the kernel programs are counting.
    pub(super) fn see_kernel(&mut self) {
        self.estimator.set_sees_kernel(self.senses.origin == Origin::Ebpf);
    }
}
