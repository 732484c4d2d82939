//! Names on Reservations, and on the pods that stand for one inside the scheduler.

/// Annotation of the pod that stands for a Reservation inside the scheduler; no pod of a user may carry it.
pub const RESERVE_POD: &str = "scheduling.koordinator.sh/reserve-pod";
