;; The loops of slice-kernel.ts. Lengths of bitmaps are multiples of 64 bytes, or of 128 to count in them.
;; test/snapshots/index/slice-kernel.test.ts assembles this and compares it with the bytes in slice-kernel.ts.
(module
  (memory (export "memory") 5)

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

  ;; Counts the bits of a bitmap, from $bits to $bitsEnd, whose values are at least a bound, and those of a part of it, from
  ;; $others, for each bound of a table, from $bounds to $end, which may be of several columns. An entry has eight i32: where
  ;; its lowest slice begins, behind $slices; the number of slices from there up; the bound in these slices; the two counts,
  ;; which are added to; and three that are not used. Works on 128 bytes at a time. As many behind the table are written to:
  ;; general registers count bits faster than SIMD does where it has no instruction for that.
  (func (export "countFrom")
    (param $bits i32) (param $bitsEnd i32) (param $others i32)
    (param $slices i32) (param $stride i32)
    (param $bounds i32) (param $end i32)
    (local $entry i32) (local $at i32) (local $bound i32) (local $left i32) (local $some i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $e v128) (local $f v128) (local $g v128) (local $h v128)
    (loop $blocks
      (if
        (v128.any_true (v128.or
          (v128.or
            (v128.or (v128.load (local.get $bits)) (v128.load offset=16 (local.get $bits)))
            (v128.or (v128.load offset=32 (local.get $bits)) (v128.load offset=48 (local.get $bits))))
          (v128.or
            (v128.or (v128.load offset=64 (local.get $bits)) (v128.load offset=80 (local.get $bits)))
            (v128.or (v128.load offset=96 (local.get $bits)) (v128.load offset=112 (local.get $bits))))))
        (then
          (local.set $some (v128.any_true (v128.or
            (v128.or
              (v128.or (v128.load (local.get $others)) (v128.load offset=16 (local.get $others)))
              (v128.or (v128.load offset=32 (local.get $others)) (v128.load offset=48 (local.get $others))))
            (v128.or
              (v128.or (v128.load offset=64 (local.get $others)) (v128.load offset=80 (local.get $others)))
              (v128.or (v128.load offset=96 (local.get $others)) (v128.load offset=112 (local.get $others)))))))
          (local.set $entry (local.get $bounds))
          (loop $entries
            (local.set $a (v128.const i32x4 -1 -1 -1 -1))
            (local.set $b (local.get $a))
            (local.set $c (local.get $a))
            (local.set $d (local.get $a))
            (local.set $e (local.get $a))
            (local.set $f (local.get $a))
            (local.set $g (local.get $a))
            (local.set $h (local.get $a))
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
                      (local.set $d (v128.and (local.get $d) (v128.load offset=48 (local.get $at))))
                      (local.set $e (v128.and (local.get $e) (v128.load offset=64 (local.get $at))))
                      (local.set $f (v128.and (local.get $f) (v128.load offset=80 (local.get $at))))
                      (local.set $g (v128.and (local.get $g) (v128.load offset=96 (local.get $at))))
                      (local.set $h (v128.and (local.get $h) (v128.load offset=112 (local.get $at)))))
                    (else
                      (local.set $a (v128.or (local.get $a) (v128.load (local.get $at))))
                      (local.set $b (v128.or (local.get $b) (v128.load offset=16 (local.get $at))))
                      (local.set $c (v128.or (local.get $c) (v128.load offset=32 (local.get $at))))
                      (local.set $d (v128.or (local.get $d) (v128.load offset=48 (local.get $at))))
                      (local.set $e (v128.or (local.get $e) (v128.load offset=64 (local.get $at))))
                      (local.set $f (v128.or (local.get $f) (v128.load offset=80 (local.get $at))))
                      (local.set $g (v128.or (local.get $g) (v128.load offset=96 (local.get $at))))
                      (local.set $h (v128.or (local.get $h) (v128.load offset=112 (local.get $at))))))
                  (local.set $at (i32.add (local.get $at) (local.get $stride)))
                  (local.set $bound (i32.shr_u (local.get $bound) (i32.const 1)))
                  (br_if $slice (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
            (v128.store (local.get $end) (v128.and (local.get $a) (v128.load (local.get $bits))))
            (v128.store offset=16 (local.get $end) (v128.and (local.get $b) (v128.load offset=16 (local.get $bits))))
            (v128.store offset=32 (local.get $end) (v128.and (local.get $c) (v128.load offset=32 (local.get $bits))))
            (v128.store offset=48 (local.get $end) (v128.and (local.get $d) (v128.load offset=48 (local.get $bits))))
            (v128.store offset=64 (local.get $end) (v128.and (local.get $e) (v128.load offset=64 (local.get $bits))))
            (v128.store offset=80 (local.get $end) (v128.and (local.get $f) (v128.load offset=80 (local.get $bits))))
            (v128.store offset=96 (local.get $end) (v128.and (local.get $g) (v128.load offset=96 (local.get $bits))))
            (v128.store offset=112 (local.get $end) (v128.and (local.get $h) (v128.load offset=112 (local.get $bits))))
            (i32.store offset=12 (local.get $entry) (i32.add
              (i32.load offset=12 (local.get $entry))
              (i32.wrap_i64 (i64.add
                (i64.add
                  (i64.add
                    (i64.add (i64.popcnt (i64.load (local.get $end))) (i64.popcnt (i64.load offset=8 (local.get $end))))
                    (i64.add (i64.popcnt (i64.load offset=16 (local.get $end))) (i64.popcnt (i64.load offset=24 (local.get $end)))))
                  (i64.add
                    (i64.add (i64.popcnt (i64.load offset=32 (local.get $end))) (i64.popcnt (i64.load offset=40 (local.get $end))))
                    (i64.add (i64.popcnt (i64.load offset=48 (local.get $end))) (i64.popcnt (i64.load offset=56 (local.get $end))))))
                (i64.add
                  (i64.add
                    (i64.add (i64.popcnt (i64.load offset=64 (local.get $end))) (i64.popcnt (i64.load offset=72 (local.get $end))))
                    (i64.add (i64.popcnt (i64.load offset=80 (local.get $end))) (i64.popcnt (i64.load offset=88 (local.get $end)))))
                  (i64.add
                    (i64.add (i64.popcnt (i64.load offset=96 (local.get $end))) (i64.popcnt (i64.load offset=104 (local.get $end))))
                    (i64.add (i64.popcnt (i64.load offset=112 (local.get $end))) (i64.popcnt (i64.load offset=120 (local.get $end))))))))))
            (if (local.get $some)
              (then
                (v128.store (local.get $end) (v128.and (local.get $a) (v128.load (local.get $others))))
                (v128.store offset=16 (local.get $end) (v128.and (local.get $b) (v128.load offset=16 (local.get $others))))
                (v128.store offset=32 (local.get $end) (v128.and (local.get $c) (v128.load offset=32 (local.get $others))))
                (v128.store offset=48 (local.get $end) (v128.and (local.get $d) (v128.load offset=48 (local.get $others))))
                (v128.store offset=64 (local.get $end) (v128.and (local.get $e) (v128.load offset=64 (local.get $others))))
                (v128.store offset=80 (local.get $end) (v128.and (local.get $f) (v128.load offset=80 (local.get $others))))
                (v128.store offset=96 (local.get $end) (v128.and (local.get $g) (v128.load offset=96 (local.get $others))))
                (v128.store offset=112 (local.get $end) (v128.and (local.get $h) (v128.load offset=112 (local.get $others))))
                (i32.store offset=16 (local.get $entry) (i32.add
                  (i32.load offset=16 (local.get $entry))
                  (i32.wrap_i64 (i64.add
                    (i64.add
                      (i64.add
                        (i64.add (i64.popcnt (i64.load (local.get $end))) (i64.popcnt (i64.load offset=8 (local.get $end))))
                        (i64.add (i64.popcnt (i64.load offset=16 (local.get $end))) (i64.popcnt (i64.load offset=24 (local.get $end)))))
                      (i64.add
                        (i64.add (i64.popcnt (i64.load offset=32 (local.get $end))) (i64.popcnt (i64.load offset=40 (local.get $end))))
                        (i64.add (i64.popcnt (i64.load offset=48 (local.get $end))) (i64.popcnt (i64.load offset=56 (local.get $end))))))
                    (i64.add
                      (i64.add
                        (i64.add (i64.popcnt (i64.load offset=64 (local.get $end))) (i64.popcnt (i64.load offset=72 (local.get $end))))
                        (i64.add (i64.popcnt (i64.load offset=80 (local.get $end))) (i64.popcnt (i64.load offset=88 (local.get $end)))))
                      (i64.add
                        (i64.add (i64.popcnt (i64.load offset=96 (local.get $end))) (i64.popcnt (i64.load offset=104 (local.get $end))))
                        (i64.add (i64.popcnt (i64.load offset=112 (local.get $end))) (i64.popcnt (i64.load offset=120 (local.get $end))))))))))))
            (br_if $entries
              (i32.lt_u (local.tee $entry (i32.add (local.get $entry) (i32.const 32))) (local.get $end))))))
      (local.set $slices (i32.add (local.get $slices) (i32.const 128)))
      (local.set $others (i32.add (local.get $others) (i32.const 128)))
      (br_if $blocks
        (i32.lt_u (local.tee $bits (i32.add (local.get $bits) (i32.const 128))) (local.get $bitsEnd))))))
