//! Names on Reservations and on the pods that represent them in the scheduler.

/// Annotation of the pod that represents a Reservation in the scheduler; no user's pod may have it.
pub const RESERVE_POD: &str = "scheduling.koordinator.sh/reserve-pod";
