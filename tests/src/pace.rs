//! Time limits and amounts of work for the speed of the machine of the kernel tests: an emulated one gets more time and
//! less work.

use std::{env, num::NonZeroU32, sync::LazyLock, time::Duration};

use xtask::suite::SLOWER;

/// How long something that must happen may take on an ordinary machine.
const HAPPENS_WITHIN: Duration = Duration::from_secs(30);
/// How many times slower this machine is, as [`SLOWER`] says.
static TIMES_SLOWER: LazyLock<NonZeroU32> = LazyLock::new(|| match env::var(SLOWER) {
    Err(env::VarError::NotPresent) => NonZeroU32::MIN,
    told => {
        let told = told.expect("text");
        let times = told.parse();
        times.unwrap_or_else(|_none| panic!("{SLOWER} is {told:?} and no whole number above 0"))
    }
});

/// How long something that must happen may take here.
pub fn happens_within() -> Duration {
    as_long(HAPPENS_WITHIN)
}

/// What takes so long on an ordinary machine may take so long here.
pub fn as_long(ordinary: Duration) -> Duration {
    ordinary * TIMES_SLOWER.get()
}

/// What an ordinary machine does so many times in a while, this one does so many times in it.
pub fn as_many(ordinary: u64) -> u64 {
    ordinary / u64::from(TIMES_SLOWER.get())
}
