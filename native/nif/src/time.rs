//! The clocks of the node.

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    clock_ms(libc::CLOCK_REALTIME)
}

/// Milliseconds since the Unix epoch at the kernel's last clock tick, if there is such a clock:
/// never later than [`now_ms`], at most one tick (1 to 10 ms) earlier, and several times cheaper.
/// For look-ups: a record may be visible for a tick longer than it lives.
#[inline]
pub(crate) fn tick_ms() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return clock_ms(libc::CLOCK_REALTIME_COARSE);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return now_ms();
}

/// What a clock says, in milliseconds.
#[inline]
pub(crate) fn clock_ms(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid location for the result. The call cannot fail with a clock that exists; if it
    // did, the time would be 0 and nothing would expire.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1000).wrapping_add(time.tv_nsec as u64 / 1_000_000)
}
