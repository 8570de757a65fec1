;; The loops of slice-kernel.ts, 64 bytes at a time. Lengths of bitmaps are multiples of 64 bytes.
;; test/snapshots/index/slice-kernel.test.ts assembles this and compares it with the bytes in slice-kernel.ts.
(module
  (memory (export "memory") 7)

  ;; Clears in the bitmap from $result to $end the bits of values below $bound, or, where $flip is -1 and not 0, of the
  ;; others. There are $count slices, $stride bytes apart.
  (func (export "keepFrom")
    (param $result i32) (param $end i32)
    (param $slices i32) (param $stride i32) (param $count i32)
    (param $bound i32) (param $flip i32)
    (local $at i32) (local $bits i32) (local $left i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128) (local $flips v128)
    (local.set $flips (i32x4.splat (local.get $flip)))
    (loop $blocks
      (if
        (v128.any_true (v128.or
          (v128.or (v128.load (local.get $result)) (v128.load offset=16 (local.get $result)))
          (v128.or (v128.load offset=32 (local.get $result)) (v128.load offset=48 (local.get $result)))))
        (then
          (local.set $a (v128.const i32x4 -1 -1 -1 -1))
          (local.set $b (local.get $a))
          (local.set $c (local.get $a))
          (local.set $d (local.get $a))
          (local.set $at (local.get $slices))
          (local.set $bits (local.get $bound))
          (local.set $left (local.get $count))
          (loop $slice
            (if (i32.and (local.get $bits) (i32.const 1))
              (then
                (local.set $a (v128.and (local.get $a) (v128.load (local.get $at))))
                (local.set $b (v128.and (local.get $b) (v128.load offset=16 (local.get $at))))
                (local.set $c (v128.and (local.get $c) (v128.load offset=32 (local.get $at))))
                (local.set $d (v128.and (local.get $d) (v128.load offset=48 (local.get $at)))))
              (else
                (local.set $a (v128.or (local.get $a) (v128.load (local.get $at))))
                (local.set $b (v128.or (local.get $b) (v128.load offset=16 (local.get $at))))
                (local.set $c (v128.or (local.get $c) (v128.load offset=32 (local.get $at))))
                (local.set $d (v128.or (local.get $d) (v128.load offset=48 (local.get $at))))))
            (local.set $at (i32.add (local.get $at) (local.get $stride)))
            (local.set $bits (i32.shr_u (local.get $bits) (i32.const 1)))
            (br_if $slice (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
          (v128.store (local.get $result)
            (v128.and (v128.load (local.get $result)) (v128.xor (local.get $a) (local.get $flips))))
          (v128.store offset=16 (local.get $result)
            (v128.and (v128.load offset=16 (local.get $result)) (v128.xor (local.get $b) (local.get $flips))))
          (v128.store offset=32 (local.get $result)
            (v128.and (v128.load offset=32 (local.get $result)) (v128.xor (local.get $c) (local.get $flips))))
          (v128.store offset=48 (local.get $result)
            (v128.and (v128.load offset=48 (local.get $result)) (v128.xor (local.get $d) (local.get $flips))))))
      (local.set $slices (i32.add (local.get $slices) (i32.const 64)))
      (br_if $blocks
        (i32.lt_u (local.tee $result (i32.add (local.get $result) (i32.const 64))) (local.get $end)))))

  ;; The bits set in the 64 bytes at an address.
  (func $popCount (param $at i32) (result i32)
    (i32.wrap_i64 (i64.add
      (i64.add
        (i64.add (i64.popcnt (i64.load (local.get $at))) (i64.popcnt (i64.load offset=8 (local.get $at))))
        (i64.add (i64.popcnt (i64.load offset=16 (local.get $at))) (i64.popcnt (i64.load offset=24 (local.get $at)))))
      (i64.add
        (i64.add (i64.popcnt (i64.load offset=32 (local.get $at))) (i64.popcnt (i64.load offset=40 (local.get $at))))
        (i64.add (i64.popcnt (i64.load offset=48 (local.get $at))) (i64.popcnt (i64.load offset=56 (local.get $at))))))))

  ;; Counts the bits of a bitmap, from $bits to $bitsEnd, whose values are at least a bound, and those of a part of it, from
  ;; $others, for each bound of a table, from $bounds to $end. An entry has eight i32: where its lowest slice begins, behind
  ;; $slices; the number of slices from there up; the bound in these slices; the two counts, which are added to; and three
  ;; that are not used. The 64 bytes behind the table are: general registers count bits faster than SIMD does where it has
  ;; no instruction for that.
  (func (export "countFrom")
    (param $bits i32) (param $bitsEnd i32) (param $others i32)
    (param $slices i32) (param $stride i32)
    (param $bounds i32) (param $end i32)
    (local $entry i32) (local $at i32) (local $bound i32) (local $left i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (loop $blocks
      (if
        (v128.any_true (v128.or
          (v128.or (v128.load (local.get $bits)) (v128.load offset=16 (local.get $bits)))
          (v128.or (v128.load offset=32 (local.get $bits)) (v128.load offset=48 (local.get $bits)))))
        (then
          (local.set $entry (local.get $bounds))
          (loop $entries
            (local.set $a (v128.const i32x4 -1 -1 -1 -1))
            (local.set $b (local.get $a))
            (local.set $c (local.get $a))
            (local.set $d (local.get $a))
            (local.set $at (i32.add (local.get $slices) (i32.load (local.get $entry))))
            (local.set $bound (i32.load offset=8 (local.get $entry)))
            (if (local.tee $left (i32.load offset=4 (local.get $entry)))
              (then
                (loop $slice
                  (if (i32.and (local.get $bound) (i32.const 1))
                    (then
                      (local.set $a (v128.and (local.get $a) (v128.load (local.get $at))))
                      (local.set $b (v128.and (local.get $b) (v128.load offset=16 (local.get $at))))
                      (local.set $c (v128.and (local.get $c) (v128.load offset=32 (local.get $at))))
                      (local.set $d (v128.and (local.get $d) (v128.load offset=48 (local.get $at)))))
                    (else
                      (local.set $a (v128.or (local.get $a) (v128.load (local.get $at))))
                      (local.set $b (v128.or (local.get $b) (v128.load offset=16 (local.get $at))))
                      (local.set $c (v128.or (local.get $c) (v128.load offset=32 (local.get $at))))
                      (local.set $d (v128.or (local.get $d) (v128.load offset=48 (local.get $at))))))
                  (local.set $at (i32.add (local.get $at) (local.get $stride)))
                  (local.set $bound (i32.shr_u (local.get $bound) (i32.const 1)))
                  (br_if $slice (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
            (v128.store (local.get $end) (v128.and (local.get $a) (v128.load (local.get $bits))))
            (v128.store offset=16 (local.get $end) (v128.and (local.get $b) (v128.load offset=16 (local.get $bits))))
            (v128.store offset=32 (local.get $end) (v128.and (local.get $c) (v128.load offset=32 (local.get $bits))))
            (v128.store offset=48 (local.get $end) (v128.and (local.get $d) (v128.load offset=48 (local.get $bits))))
            (i32.store offset=12 (local.get $entry) (i32.add
              (i32.load offset=12 (local.get $entry))
              (call $popCount (local.get $end))))
            (v128.store (local.get $end) (v128.and (local.get $a) (v128.load (local.get $others))))
            (v128.store offset=16 (local.get $end) (v128.and (local.get $b) (v128.load offset=16 (local.get $others))))
            (v128.store offset=32 (local.get $end) (v128.and (local.get $c) (v128.load offset=32 (local.get $others))))
            (v128.store offset=48 (local.get $end) (v128.and (local.get $d) (v128.load offset=48 (local.get $others))))
            (i32.store offset=16 (local.get $entry) (i32.add
              (i32.load offset=16 (local.get $entry))
              (call $popCount (local.get $end))))
            (br_if $entries
              (i32.lt_u (local.tee $entry (i32.add (local.get $entry) (i32.const 32))) (local.get $end))))))
      (local.set $slices (i32.add (local.get $slices) (i32.const 64)))
      (local.set $others (i32.add (local.get $others) (i32.const 64)))
      (br_if $blocks
        (i32.lt_u (local.tee $bits (i32.add (local.get $bits) (i32.const 64))) (local.get $bitsEnd)))))

  ;; Counts the postings, from $postings to $end and in 16 bits each, whose ordinals are in a bitmap, and in its upper 16 bits
  ;; those that are in another one too. A bit of $starts is set where a label's postings begin; the i32 behind $counts is the
  ;; first label's. No branch depends on what is found: that is as hard to foresee as the filter.
  (func (export "countPostings")
    (param $bits i32) (param $others i32)
    (param $postings i32) (param $end i32)
    (param $starts i32) (param $counts i32)
    (local $place i32) (local $byte i32) (local $bit i32) (local $start i32) (local $count i32)
    (loop $each
      (local.set $start (i32.and (i32.const 1) (i32.shr_u
        (i32.load8_u (i32.add (local.get $starts) (i32.shr_u (local.get $place) (i32.const 3))))
        (i32.and (local.get $place) (i32.const 7)))))
      (local.set $counts (i32.add (local.get $counts) (i32.shl (local.get $start) (i32.const 2))))
      (local.set $byte (i32.shr_u (local.tee $bit (i32.load16_u (local.get $postings))) (i32.const 3)))
      (local.set $bit (i32.and (local.get $bit) (i32.const 7)))
      (i32.store (local.get $counts) (local.tee $count (i32.add
        (i32.and (local.get $count) (i32.sub (local.get $start) (i32.const 1)))
        (i32.or
          (i32.and (i32.const 1) (i32.shr_u
            (i32.load8_u (i32.add (local.get $bits) (local.get $byte))) (local.get $bit)))
          (i32.shl (i32.and (i32.const 1) (i32.shr_u
            (i32.load8_u (i32.add (local.get $others) (local.get $byte))) (local.get $bit))) (i32.const 16))))))
      (local.set $place (i32.add (local.get $place) (i32.const 1)))
      (br_if $each (i32.lt_u
        (local.tee $postings (i32.add (local.get $postings) (i32.const 2))) (local.get $end))))))
