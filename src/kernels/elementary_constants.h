// Coefficients of the float functions that exist twice, for one value (math.cpp) and for eight
// (elementary.inc). Sources: Cephes mathematical library, expf and tanhf (S. L. Moshier); for erf,
// minimax polynomials of N. Juffa.
#pragma once

namespace reprise::kernels {

// e^x = 2^n * e^r, n = round(x / ln 2), |r| <= ln 2 / 2. kRounder is 1.5 * 2^23: adding it rounds
// to an integer and leaves that integer in the low bits.
inline constexpr float kRounder = 12582912.0f;
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440e-4f;
inline constexpr float kExpSmallest = -87.33f;  // e^x is 0 below: the last normal results
inline constexpr float kExpLargest = 88.37f;    // n stays <= 127; e^x is constant above
inline constexpr int kExpTerms = 6;
inline constexpr float kExpPolynomial[kExpTerms] = {1.9875691500e-4f, 1.3981999507e-3f,
                                                    8.3334519073e-3f, 4.1665795894e-2f,
                                                    1.6666665459e-1f, 5.0000001201e-1f};

// tanh x = x + x^3 P(x^2) below the bound, else 1 - 2 / (e^2x + 1).
inline constexpr float kTanhBound = 0.625f;
inline constexpr int kTanhTerms = 5;
inline constexpr float kTanhPolynomial[kTanhTerms] = {-5.70498872745e-3f, 2.06390887954e-2f,
                                                      -5.37397155531e-2f, 1.33314422036e-1f,
                                                      -3.33332819422e-1f};

// erf x = x + x P(x^2) up to the bound, else 1 - e^(Q(x) - x).
inline constexpr float kErfBound = 0.927734375f;
inline constexpr int kErfTerms = 6;
inline constexpr float kErfPolynomial[kErfTerms] = {-5.96761703e-4f, 4.99119423e-3f,
                                                    -2.67681349e-2f, 1.12819925e-1f,
                                                    -3.76125336e-1f, 1.28379166e-1f};
// Q's seven coefficients; the first four are summed in two pairs.
inline constexpr float kErfTail[7] = {-1.72853470e-5f, 3.83197126e-4f,  -3.88396438e-3f,
                                      2.42546219e-2f,  -1.06777877e-1f, -6.34846687e-1f,
                                      -1.28717512e-1f};

// gelu(x) = x (1 + erf(x / sqrt 2)) / 2.
inline constexpr float kHalfRoot = 0.70710678118654752f;

// gelu_tanh(x) = x / (1 + e^(-x (a + b x^2))), a = 2 sqrt(2 / pi), b = 0.044715 a.
inline constexpr float kGeluLinear = 1.5957691216057308f;
inline constexpr float kGeluCubic = 0.07135481627159626f;

}  // namespace reprise::kernels
