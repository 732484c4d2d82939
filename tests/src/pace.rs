//! Time limits and amounts of work scaled to the speed of the machine of the kernel tests: an emulated one gets more
//! time and less work.

use std::{env, num::NonZeroU32, sync::LazyLock, time::Duration};

use xtask::suite::SLOWER;

/// Default limit for an expected event on an ordinary machine.
const HAPPENS_WITHIN: Duration = Duration::from_secs(30);
/// Slowdown of this machine, from [`SLOWER`].
static TIMES_SLOWER: LazyLock<NonZeroU32> = LazyLock::new(|| match env::var(SLOWER) {
    Err(env::VarError::NotPresent) => NonZeroU32::MIN,
    value => {
        let value = value.expect("text");
        let times = value.parse();
        times.unwrap_or_else(|_none| panic!("{SLOWER} is {value:?}, expected a whole number above 0"))
    }
});

/// Default limit for an expected event on this machine.
pub fn happens_within() -> Duration {
    as_long(HAPPENS_WITHIN)
}

/// Scales a duration of an ordinary machine to this one.
pub fn as_long(ordinary: Duration) -> Duration {
    ordinary * TIMES_SLOWER.get()
}

/// Scales a number of repetitions within a fixed time to this machine.
pub fn as_many(ordinary: u64) -> u64 {
    ordinary / u64::from(TIMES_SLOWER.get())
}
