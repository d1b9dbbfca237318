/* What is asked when the caller has nothing to ask: texts of many kinds, since a draft head is right more often in some. No
 * quotation marks or backslashes: they go into JSON as they are. */
#include "forge/calibrate_answers.h"

const char *const fore_calibrate_texts[] = {
    "Tell a story about a fox who crosses a river to find a red ball.",
    "Write a function in Python that merges two sorted lists, and explain each step.",
    "Explain how a refrigerator works to someone who has never seen one.",
    "Count from one to forty in words.",
    "Schreibe einen kurzen Brief an einen Nachbarn, dessen Hund nachts bellt.",
    "List ten animals with the food that each of them likes.",
    "Translate into French, then into Spanish: the library opens at nine and closes when the last reader leaves.",
    "Compare trains and planes for a trip of five hundred kilometres.",
    "Give me a recipe for bread with four ingredients.",
    "What are the differences between TCP and UDP?",
    "Write a dialogue between a teacher and a pupil about the moon.",
    "A farmer has 17 sheep and buys 3 pens of 8 sheep each. How many sheep are there now? Think step by step.",
    "Summarise the plot of a fairy tale that you know.",
    "Write an SQL query for the ten customers who spent most last year, and say what each part does.",
    "Escribe un poema corto sobre el mar y la lluvia.",
    "Count from 7 to 30.",
    "Describe a town market on a Saturday morning.",
    "Name the planets in order and one fact about each.",
    "Write a polite mail that moves a meeting from Tuesday to Thursday.",
    "Why is the sky blue, and why is it red in the evening?",
    "Tell a story about a dog, a river and a boat.",
    "Give five tips for learning a language.",
    "Write a C function that reverses a string in place.",
    "Make a table of three fruits with colour, taste and season.",
    NULL,
};
